"""`memplane hook <agent>`: the command that a coding agent runs at its events.

It must never harm the agent that runs it: it reads JSON from stdin, exits with 0 whatever happens,
prints nothing but its answer, is ended by its own timer, and writes faults to `HOME/hooks.log`. It
leaves no process and no lock behind.

`payload` turns the JSON into rows, and finds where the session works; `run` puts the rows into the
log or the spool and catches up when the agent has stopped; `context` packs what the agent does not
have yet.
"""
