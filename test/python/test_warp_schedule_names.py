"""What schedules of warps are made of: names, defaults and representations."""

import pytest
import tilelang
import tilelang.language as T

S = T.WSSync


def test_what_a_schedule_is_made_of():
    sync = S(T.WSSyncKind.CONSUMER_RELEASE, "p", 1)
    assert (sync.kind, sync.pipeline, sync.stage) == (T.WSSyncKind.CONSUMER_RELEASE, "p", 1)
    assert str(T.WSSyncKind.PRODUCER_ACQUIRE) == "tl.WSSyncKind.PRODUCER_ACQUIRE"
    assert [k.name for k in T.WSSyncKind] == [
        "PRODUCER_ACQUIRE",
        "PRODUCER_COMMIT",
        "CONSUMER_WAIT",
        "CONSUMER_RELEASE",
    ]
    role = T.WSRole("load", warps_lo=1, warps_hi=3)
    assert (role.name, role.warp_lo, role.warp_hi, role.max_nreg) == ("load", 1, 3, 0)
    assert isinstance(sync, T.WSInstr) and isinstance(T.WSOpRef("a"), T.WSInstr) and T.WSOpRef("a").id == "a"
    assert T.WSScope.ROOT == "tl.ws_scope_root" and T.WSID == "tl.ws_op_id"
    assert isinstance(T.ws(1, 2), T.WarpSpecializeFrame) and T.ws(1, 2).frames == [1, 2]
    with pytest.raises(tilelang.CompileError, match="kind is a T.WSSyncKind, not 'wait'"):
        S("wait", "p")
