"""`memplane hook <agent>`: what a coding agent runs at its events.

It must never harm the agent that runs it: it reads JSON from stdin, ends with 0 whatever happens,
prints nothing but its answer, is ended by a clock of its own, and tells its faults to
`HOME/hooks.log`. Nothing of it stays behind: no process, no lock.

`told` says what was told (pure), `recording` puts it into the log or the spool, `answering` packs
what the agent may not know yet, `shown` keeps what a session was given, `run` holds it together.
"""
