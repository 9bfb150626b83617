"""English word lists of the analyser: function words, irregular forms, words of asking.

Other languages pass through untouched; nothing here is needed to find them.
Changing a list changes what terms a text has: raise `terms.ANALYSER` with it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["IRREGULAR", "SCAFFOLD", "STOP"]

# "may" stays out: it is a month more often than it matters as a verb.
_STOP: Final = """
    a about above after again against all am an and any are aren as at
    be because been before being below between both but by
    can cannot could couldn did didn do does doesn doing don down during
    each few for from further had hadn has hasn have haven having he her here hers herself him
    himself his how i if in into is isn it its itself just
    ll me more most must mustn my myself no nor not now
    of off on once only or other our ours ourselves out over own
    re same shan she should shouldn so some such
    than that the their theirs them themselves then there these they this those through to too
    under until up ve very was wasn we were weren what when where which while who whom why will
    with would wouldn you your yours yourself yourselves also
"""
STOP: Final = frozenset(_STOP.split())

_FORMS: Final = """
    go: went gone goes
    buy: bought
    bring: brought
    think: thought
    teach: taught
    catch: caught
    seek: sought
    fight: fought
    take: took taken
    give: gave given
    get: got gotten
    make: made
    see: saw seen
    say: said
    tell: told
    know: knew known
    come: came
    become: became
    run: ran
    begin: began begun
    drink: drank drunk
    sing: sang sung
    swim: swam swum
    ring: rang rung
    eat: ate eaten
    fall: fell fallen
    feel: felt
    find: found
    fly: flew flown
    forget: forgot forgotten
    grow: grew grown
    draw: drew drawn
    throw: threw thrown
    blow: blew blown
    hold: held
    keep: kept
    sleep: slept
    leave: left
    lose: lost
    meet: met
    pay: paid
    ride: rode ridden
    drive: drove driven
    write: wrote written
    rise: rose risen
    choose: chose chosen
    freeze: froze frozen
    speak: spoke spoken
    break: broke broken
    steal: stole stolen
    wake: woke woken
    wear: wore worn
    win: won
    sell: sold
    send: sent
    spend: spent
    build: built
    lend: lent
    stand: stood
    understand: understood
    sit: sat
    shoot: shot
    stick: stuck
    hang: hung
    hear: heard
    hide: hid hidden
    bite: bit bitten
    lead: led
    feed: fed
    mean: meant
    shine: shone
    shake: shook shaken
    child: children kid kids
    man: men
    woman: women
    person: people persons
    foot: feet
    tooth: teeth
    mouse: mice
    life: lives
    wife: wives
    knife: knives
    leaf: leaves
    good: better best
    bad: worse worst
    mother: mum mums mom moms mommy mummy
    father: dad dads daddy
    photo: picture pictures pic pics photograph photographs
    movie: film films
    bike: bicycle bicycles
    tv: television televisions
    job: work works worked working
    apartment: flat flats
"""

# One form to the word whose stem stands for all of them.
IRREGULAR: Final = {
    form: word.strip()
    for line in _FORMS.strip().splitlines()
    for word, _, forms in (line.partition(":"),)
    for form in forms.split()
}

# Stems that a question uses to ask, not to name what it asks for.
_SCAFFOLD: Final = """
    accord across ask aspect bring brought chat clear comprehens convers describ develop differ
    discuss exact explain help item kind list mani mention much opinion order overview progress
    provid recommend said say session suggest summar summari summaris talk tell think thought
    throughout told type walk
"""
SCAFFOLD: Final = frozenset(_SCAFFOLD.split())
