"""Sessions that somebody talks in, and what is then said of them."""

from datetime import datetime, timedelta


def later(clock, minutes):
    moment = datetime.fromisoformat(clock.now) + timedelta(minutes=minutes)
    clock.now = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def talk(plane, session, *texts, **fields):
    """Record prompts of a session; give back their ids."""
    return [plane.record(text, role="user", session=session, **fields).id for text in texts]


def status(plane):
    return {one.id: one.status for one in plane.work.sessions.list()}


def summary(plane, session):
    return plane.work.sessions.get(session).summary


THREE = ("Fix the herons", "and the storks", "then the cranes")
