"""The entry point of the processes that the engine starts: `python3 -m throstle`."""

from throstle.worker import main

main()
