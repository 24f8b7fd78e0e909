"""A signal asks first, and Ctrl-C insists second, also in native code; real signals, in this process and in another."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from lookrep.training.interrupt import ASKING, graceful, heard_anywhere


@pytest.mark.parametrize("number", ASKING)
def test_the_first_signal_raises_the_flag_and_nothing_else(number: signal.Signals) -> None:
    with graceful() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
        assert stop.signal_name == number.name


@pytest.mark.parametrize("first", ASKING)
def test_ctrl_c_after_the_first_signal_stops_at_once(first: signal.Signals) -> None:
    with graceful() as stop:
        signal.raise_signal(first)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stop.signal_name == first.name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_others_only_repeat_the_request(number: signal.Signals) -> None:
    with graceful() as stop:
        for _ in range(3):
            signal.raise_signal(number)
        assert stop.requested


def test_handlers_are_put_back_also_after_an_error() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), graceful():
        raise ZeroDivisionError
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_nested_block_hands_back_to_the_outer_one() -> None:
    with graceful() as outer:
        with graceful() as inner:
            signal.raise_signal(signal.SIGTERM)
        assert inner.requested
        assert not outer.requested
        signal.raise_signal(signal.SIGTERM)
        assert outer.requested


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with graceful() as stop:
            signal.raise_signal(signal.SIGINT)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_the_main_thread_it_is_harmless() -> None:
    seen: list[bool] = []

    def work() -> None:
        with graceful() as stop:
            seen.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


LOOP = """
import time
from lookrep.training.interrupt import graceful
with graceful() as stop:
    print("ready", flush=True)
    while not stop.requested:
        time.sleep(0.01)
    print("saved after", stop.signal_name, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_loop_in_another_process_gets_to_save(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", LOOP], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.read() == f"saved after {number.name}\n"
    assert process.returncode == 0


# Native code that takes minutes, and never lets Python look at signals.
DEAF = """
import contextlib, hashlib, sys, threading
from lookrep.training.interrupt import graceful, heard_anywhere
with heard_anywhere(patience_seconds=0.1), graceful() if sys.argv[1] == "graceful" else contextlib.nullcontext():
    threading.Timer(0.5, lambda: print("ready", flush=True)).start()  # once the main thread is in native code
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000_000)
"""


@pytest.mark.parametrize(("kind", "signals"), [("graceful", 2), ("plain", 1)])
def test_a_ctrl_c_that_insists_ends_native_code_too(kind: str, signals: int) -> None:
    command = [sys.executable, "-c", DEAF, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        for left in reversed(range(signals)):
            process.send_signal(signal.SIGINT)
            if left:
                with pytest.raises(subprocess.TimeoutExpired):  # the first asks, and is not what ends it
                    process.wait(0.4)
        assert process.wait(60) == 130
        assert process.stderr.read() == "lookrep: interrupted\n"


# A command whose compiled loop takes hours. It is in native code once its thread has been at one place for a second.
SOLVING = """
import sys, threading, time
from lookrep import cli

def watch(thread):
    before, waited = None, 0
    while waited < 10:
        frame = sys._current_frames()[thread]
        here = (id(frame), frame.f_lasti)
        before, waited = here, waited + 1 if here == before else 0
        time.sleep(0.1)
    print("ready", flush=True)

threading.Thread(target=watch, args=[threading.get_ident()], daemon=True).start()
words = ["exact", "two-state", "--outer-iterations", "1000000", "--lookahead-updates", "10000000"]
sys.argv = ["lookrep", *words]
sys.exit(cli.main())
"""


def test_ctrl_c_ends_a_compiled_loop_within_seconds() -> None:
    command = [sys.executable, "-c", SOLVING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(30) == 130
        finally:
            process.kill()
        assert process.stderr.read() == "lookrep: interrupted\n"


def test_python_code_is_left_to_python() -> None:
    with pytest.raises(KeyboardInterrupt), heard_anywhere(patience_seconds=60):
        signal.raise_signal(signal.SIGINT)
    assert signal.set_wakeup_fd(-1) == -1
