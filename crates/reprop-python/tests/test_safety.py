"""Nothing is left behind: not by errors, not by interrupts, not by forks, not by a thousand runs."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import reprop


def chain(folder, steps=60, step=None, adjoint=None, strategy="async", size=2000):
    return reprop.checkpointed(
        step or (lambda x, i: x * 1.01),
        np.ones(size),
        steps,
        adjoint=adjoint or (lambda x, i, g: g * 1.01),
        strategy=strategy,
        slots=2,
        store=folder,
        costs=(1.0, 2.0, 1.0, 1.0),
    )


@pytest.mark.parametrize("strategy", ["async", "disk-revolve"])
def test_an_exception_in_the_step_propagates_and_the_store_is_gone(strategy, tmp_path):
    def step(x, i):
        if i == 40:
            raise ZeroDivisionError("in the step")
        return x * 1.01

    with pytest.raises(ZeroDivisionError, match="in the step"):
        chain(tmp_path, step=step, strategy=strategy)
    assert list(tmp_path.iterdir()) == []


def test_an_exception_in_the_adjoint_propagates_and_the_store_is_gone(tmp_path):
    def adjoint(x, i, g):
        if i == 10:
            raise ZeroDivisionError("in the adjoint")
        return g

    run = chain(tmp_path, adjoint=adjoint)
    with pytest.raises(ZeroDivisionError, match="in the adjoint"):
        run.backward(np.ones(2000))
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_given_up_leaves_nothing(tmp_path):
    with chain(tmp_path, strategy="disk-revolve") as run:
        assert run.report.disk_writes > 0 and list(tmp_path.iterdir()) != []
    assert list(tmp_path.iterdir()) == []
    run = chain(tmp_path)
    del run
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_in_the_middle_ends_the_run_and_leaves_nothing(tmp_path):
    script = textwrap.dedent("""
        import signal, sys, numpy as np, reprop
        # A shell's job in the background ignores the signal, and so would this.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        def step(x, i):
            if i == 500:
                print("middle", flush=True)
            return x * 1.0001
        try:
            while True:
                reprop.checkpointed(step, np.ones(20000), 100_000, adjoint=lambda x, i, g: g, strategy="async", slots=2,
                                    store=sys.argv[1], costs=(1.0, 2.0, 4.0, 4.0))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """)
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "middle\n"
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert rest.splitlines()[-1] == "interrupted" and process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_store_says_no_in_a_fork_and_stays_whole_in_the_parent(tmp_path):
    store = reprop.Store(tmp_path / "snapshots")
    store.put(3, [np.arange(5, dtype=np.uint8)])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.get(3, [np.zeros(5, np.uint8)])
        except reprop.StoreError as error:
            code = 0 if "is a fork of it" in str(error) else 2
        del store
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    back = np.zeros(5, np.uint8)
    store.get(3, [back])
    assert back.tolist() == [0, 1, 2, 3, 4]
    store.close()
    assert not (tmp_path / "snapshots").exists()


def test_a_fork_after_use_can_run_its_own(tmp_path):
    run = chain(tmp_path / "parent")
    child = os.fork()
    if child == 0:
        gradient, _ = chain(tmp_path / "child").backward(np.ones(2000))
        os._exit(0 if (gradient > 1).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gradient, _ = run.backward(np.ones(2000))
    assert (gradient > 1).all()


def test_a_process_that_ends_with_a_store_open_leaves_nothing(tmp_path):
    script = (
        "import sys, numpy as np, reprop\n"
        "run = reprop.checkpointed(lambda x, i: x, np.ones(2000), 60, adjoint=lambda x, i, g: g, "
        "strategy='disk-revolve', slots=2, store=sys.argv[1], costs=(1, 2, 1, 1))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
def test_a_thousand_runs_grow_neither_memory_nor_open_files(tmp_path):
    def runs(count):
        for _ in range(count):
            chain(tmp_path, steps=12).backward(np.ones(2000))

    runs(100)
    memory, files = resident(), len(os.listdir("/proc/self/fd"))
    runs(1000)
    assert len(os.listdir("/proc/self/fd")) == files
    # A state has 16 kB: 1 kB a run would be a leak of less than a tenth of one.
    assert resident() - memory < 1000 * 1024
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_snapshot_is_an_error(tmp_path):
    """Every read is checked: bytes turned on disk never come back as numbers."""
    store = reprop.Store(tmp_path / "snapshots")
    store.put(0, [np.full(100_000, 7, np.uint8)])
    store.wait(0)
    for path in (tmp_path / "snapshots").rglob("*"):
        data = bytearray(path.read_bytes()) if path.is_file() else bytearray()
        if len(data) > 100_000:
            data[50_000] ^= 1
            with open(path, "r+b") as file:
                file.write(data)
                os.fsync(file.fileno())
    with pytest.raises(reprop.CorruptError, match="damaged"):
        store.get(0, [np.zeros(100_000, np.uint8)])
    store.close()


def test_a_full_store_is_an_error_of_its_own(tmp_path):
    store = reprop.Store(tmp_path / "snapshots", budget=1 << 20)
    with pytest.raises(reprop.StoreFullError, match="no room"):
        for step in range(40):
            store.put(step, [np.zeros(100_000, np.uint8)])
            store.wait(step)
    store.close(discard=True)


def test_buffers_of_another_length_are_refused(tmp_path):
    store = reprop.Store(tmp_path / "snapshots")
    store.put(0, [np.zeros(10, np.uint8)])
    with pytest.raises(reprop.StoreError, match="has 10 bytes, not 9"):
        store.get(0, [np.zeros(9, np.uint8)])
    store.close()
    with pytest.raises(reprop.StoreError, match="closed"):
        store.put(1, [np.zeros(1, np.uint8)])


def test_the_store_works_while_python_computes(tmp_path):
    """A writer needs no interpreter lock: it ends its work while one thread of Python never lets go of it."""
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    try:
        store = reprop.Store(tmp_path / "snapshots")
        store.put(0, [np.zeros(1_000_000, np.uint8)])
        for _ in range(100_000_000):
            if store.stats()["writes"] == 1:
                break
        assert store.stats()["writes"] == 1
        store.close()
    finally:
        sys.setswitchinterval(switch)
