"""Words that say nothing of what a text is about: one table, for all who count words.

Each list holds those before it. `SAID_ANYWHERE` are the words of any sentence, English: what is
left of a prompt names files. `SMALL_WORDS` are also those of asking and telling: what is left is
the meaning of a sentence. `FUNCTION_WORDS` are also those of talk about work, English and German:
no prompt is about them. The analyser of the index (`index/terms.py`) has a list of its own, since
it weighs words instead of leaving them out.
"""

from __future__ import annotations

from typing import Final

_ANYWHERE: Final = """
    a about all an and any are as at be been but by can could did do does for from get had has
    have how i if in into is it its just let make me my need no not now of on or our please
    should so some that the their them then there these they this to up us use want was we were
    what when where which who why will with would you your
"""
_SMALL: Final = """
    after also am before being doing done down go got he help her here hey hi his know let's
    like look more off ok okay one only out over really see she sure tell than thank thanks
    thing things think those too very well while yes
"""
_TALK: Final = """
    able ahead above across actually add again against ago agreed ahh almost already alright
    although always among another answer anybody anyone anything anyway anyways anywhere apart
    around ask asked asking asks away awesome back bad basically because become begin behind
    believe below beside besides best better between beyond big bit both brief bring call came
    cannot case cause certain certainly change changed changes changing check checked checking
    checks cheers clear clearly come comes coming continue cool correct course current currently
    day definitely describe detail details different dont during each early easily easy
    effectively either else end enough especially etc even ever every everybody everyone
    everything everywhere exact exactly example except explain explained explains fact fairly
    far feel feels felt few find finding finds fine first fixed follow form forms full further
    gave general generally gets getting give given gives giving goes going gone gonna good great
    guess haha happen happened happens hard having hello hence hers herself high him himself hmm
    hold holds honestly hope hopefully however idea ideally important indeed info information
    inside instead issue itself keep keeps kept kind kk knew known large last late later least
    leaves leaving left less lets lgtm likely likes line lines list literally little lol long
    looked looking looks lot low made makes making many matters may maybe mean meaning means
    meant might mind mine minute minutes moment moments most mostly much must myself nah near
    nearly needed needs neither never new next nice nobody none nope nor nothing nowhere number
    numbers obviously occur often ohh okey old once ones onto oops order other others otherwise
    ours ourselves outside own part particular particularly past perfect perhaps place places
    pls point points possible possibly probably problem problems proceed properly put puts
    question questions quick quickly quite rather ready real reason reasonable reasons recent
    recently regarding related remember resume right run running runs same saw say saying says
    second seem seems seen sees sense set sets several shall ship short show showed shown shows
    side sides similar simple simply since small somebody somehow someone something sometimes
    somewhat somewhere soon sorry sort sorts sounds specific start started starts stay stays
    step steps still stop stopped stops such suggest summarise summarize summary suppose
    supposed take taken takes taking talk talks tells text theirs themselves therefore thinking
    thinks third though thought three through thus thx till time times today together told
    tomorrow took top totally toward towards tried tries true try trying turn turns two ty under
    understand understands understood unless until upon used useful uses using usual usually
    various via wait wanted wanting wants way ways week weeks went whatever whenever whether
    whoever whole whom whose wish wishes within without wonder wondering wonders word words work
    worked working works wow write wrong yeah year years yep yet yours yourself yourselves yup
"""
_GERMAN: Final = """
    aber alle allem allen aller alles als andere anderen auch auf aus bei beim bin bis bist
    bitte brauche brauchen da dabei daher damit danke dankeschön dann das dass dein deine dem
    den denn der des deshalb dich die dies diese diesem diesen dieser dieses dir doch dort du
    durch ein eine einem einen einer eines einfach er es etwas euch euer finde findet fuer für
    gab geben geht gemacht genau gerade gerne gib gibt gleich gut habe haben hast hat hatte hier
    hin ich ihm ihn ihnen ihr ihre im immer ist ja jede jeden jeder jetzt kann kannst kein keine
    keinen klar koennen kurz können könnte könnten lass lassen leider lieber mach mache machen
    macht man manche mehr mein meine meinem meinen mich mir mit muss müssen nach nein nicht
    nichts nie noch nochmal nun nur ob oder ohne passt perfekt prima schau schon sehr sei sein
    seine sich sicher sie sind soll sollen sollte sollten sondern stimmt super thema toll um und
    uns unser unsere unter viel viele vielleicht vom von vor wann war waren warum wegen weil
    weiter welche wenn wer werden wie wieder wieso willst wir wird wirklich wo wollen worden
    wuerde würde würden zeig zu zum zur zurück
"""
SAID_ANYWHERE: Final = frozenset(_ANYWHERE.split())
SMALL_WORDS: Final = SAID_ANYWHERE.union(_SMALL.split())
FUNCTION_WORDS: Final = SMALL_WORDS.union(_TALK.split(), _GERMAN.split())
