"""What the tests let other processes do; without torch, so that these start at once."""

import os
import signal
from multiprocessing.connection import Connection


def sends_and_is_killed(sender: Connection) -> None:
    sender.send(1)
    os.kill(os.getpid(), signal.SIGKILL)


def sends_and_fails(sender: Connection) -> None:
    sender.send(1)
    raise SystemExit(3)


def interrupts_itself(sender: Connection) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    sender.send("still here")
