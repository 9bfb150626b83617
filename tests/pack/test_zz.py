import tests.pack.test_statements as S
from tests.pack.conftest import *
def test_zz(plane):
    S.start(plane)
    old = S.say(plane, "herons nest early", role="assistant")
    S.turns(plane, 120)
    S.bury(plane)
    for i in range(2):
        b=plane.pack(session="s", budget=4000)
        print("HIT",i,old in S.shown(b),b.report["request"]["intent"],len(b.entries),b.report["omissions"]["counts"])
    plane.search("herons")
    b=plane.pack(session="s", budget=4000)
    print("HIT",3,old in S.shown(b),b.report["request"]["intent"],len(b.entries),b.report["omissions"]["counts"])
