"""What a command says that fails as it should."""


def refused(done, code, said):
    """Whether a command failed as it should: no data, one kind of words, no traceback."""
    out, err = (done.out, done.err) if hasattr(done, "out") else (done.stdout, done.stderr)
    assert (done.code if hasattr(done, "code") else done.returncode) == code, err
    assert not out
    err = err if isinstance(err, str) else err.decode()
    assert err.startswith("memplane: ")
    assert "Traceback" not in err
    assert said in err
