"""The part of a `python` stage that runs in Python: calls the user's function for the items that the engine sends.

Messages are JSON objects, one per line. The engine's messages arrive on standard input, and the answers go to a
copy of standard output. Standard output itself becomes standard error, so everything that a program prints goes to
the log.
"""

import json
import math
import os
import random
import select
import signal
import sys
import traceback

PROTOCOL = 1
KEPT = 400  # characters of a message
VARARGS = 4  # the flag of a function with `*args`


class Reject(Exception):
    """Quarantines the item, with a reason."""


class File(str):
    """The path of a file of an item; `kind` is the kind of its content, such as `audio/wav`."""

    kind = ""


class Item(dict):
    """The fields of an item by name. `seed` is the seed of the item, `out` the folder for its output files."""

    def __init__(self, id="", /, **fields):
        super().__init__(fields)
        self.id, self.seed, self.out, self.handle, self.given = id, 0, "", None, {}

    def __missing__(self, name):
        known = ", ".join(self.given) or "none"
        raise KeyError(f"`{name}` is not one of the `fields` of the stage: {known}" if self.handle else name)

    def with_fields(self, **fields):
        """The same item with added or replaced fields."""
        item = Item(self.id, **{**self, **fields})
        item.seed, item.out, item.handle, item.given = self.seed, self.out, self.handle, self.given
        return item


class Setup:
    """The settings of a process: `device`, `threads`, `seed`, `parameters`, `artifact`."""

    def __init__(self, hello):
        self.device, self.threads, self.seed = hello["device"], hello["threads"], hello["seed"]
        self.parameters = hello["parameters"]
        self.artifact = {name: value_of(value) for name, value in hello["artifact"].items()}


def stage(function=None, *, setup=None, outputs=None, batch=False, version=None):
    """Marks the function that a stage calls. `setup(setup)` makes its second argument, once."""

    def mark(function):
        function.throstle_stage = {"setup": setup, "outputs": outputs, "batch": batch, "version": version}
        return function

    return mark if function is None else mark(function)


def value_of(value):
    if not isinstance(value, dict):
        return value
    file = File(value["path"])
    file.kind = value["kind"]
    return file


def numbers_of(error):
    """The numbers of the system's errors behind an exception, such as that of a full disk."""
    found, seen, waiting = [], [], [error]
    while waiting:
        error = waiting.pop()
        if not isinstance(error, BaseException) or any(error is other for other in seen):
            continue
        seen.append(error)
        number = error.errno if isinstance(error, OSError) else None
        if isinstance(number, int) and 0 < number < 4096:
            found.append(int(number))
        # Those of a group, such as tasks that ran at the same time.
        parts = getattr(error, "exceptions", None)
        waiting += reversed(parts) if isinstance(parts, (list, tuple)) else []
        waiting.append(error.__cause__ or (None if error.__suppress_context__ else error.__context__))
    return found


def behind(error):
    """The system error numbers behind an exception, and if it is a lack of memory."""
    is_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return {"numbers": numbers_of(error), "memory": is_memory}


class Refusal(Exception):
    """The program cannot start."""


def load(script, name):
    """Loads a script: returns its function, and the options of `@stage`."""
    sys.path.insert(0, os.path.dirname(script))
    # With the name `__main__`, the code under `if __name__ == "__main__"` would run.
    names = {"__name__": "script", "__file__": script}
    with open(script, "rb") as file:
        exec(compile(file.read(), script, "exec"), names)  # noqa: S102
    marked = {key: value for key, value in names.items() if hasattr(value, "throstle_stage")}
    if name is None:
        functions = {id(value): value for value in marked.values()}
        if len(functions) != 1:
            found = ", ".join(f"`{key}`" for key in marked) or "none"
            raise Refusal(
                f"the script should have one function with `@stage`, or the stage a `function`; found: {found}"
            )
        function = next(iter(functions.values()))
    elif not callable(names.get(name)):
        raise Refusal(f"the script has no function `{name}`")
    else:
        function = names[name]
    return function, getattr(function, "throstle_stage", {})


class Worker:
    def __init__(self):
        self.input, self.buffer, self.cancelled = 0, b"", set()
        self.output = os.dup(1)
        os.dup2(2, 1)
        for descriptor in (0, self.output):
            os.set_inheritable(descriptor, False)
        self.told = set()

    # The stream of messages.

    def send(self, **message):
        rest = json.dumps(message, allow_nan=False).encode() + b"\n"
        while rest:
            rest = rest[os.write(self.output, rest):]

    def receive(self):
        """The next message; None at the end."""
        while b"\n" not in self.buffer:
            piece = os.read(self.input, 1 << 16)
            if not piece:
                return None
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def is_cancelled(self, request):
        """True if the engine has cancelled this request. Does not wait."""
        while b"\n" not in self.buffer and select.select([self.input], [], [], 0)[0]:
            piece = os.read(self.input, 1 << 16)
            if not piece:
                return True
            self.buffer += piece
        if b"\n" in self.buffer:
            line = json.loads(self.buffer.split(b"\n", 1)[0])
            if line["type"] == "cancel":
                self.buffer = self.buffer.split(b"\n", 1)[1]
                self.cancelled.add(line["request"])
        return request in self.cancelled

    # Errors.

    def failure(self, error):
        """The type and text of an error and its place in the script. The full traceback is printed once."""
        place = self.place(error)
        lines = traceback.format_exception_only(type(error), error)
        # In front of a syntax error is the line of the script; behind others are their notes.
        words = " ".join((lines[-1] if isinstance(error, SyntaxError) else "".join(lines)).split())
        words = words.encode("utf-8", "replace").decode()
        if (type(error), place) not in self.told:
            self.told.add((type(error), place))
            traceback.print_exception(type(error), error, error.__traceback__)
            sys.stderr.flush()
        return f"{words[:KEPT]}{place}"

    def failed(self, error):
        """The fields of an answer about an error: the engine tells by the numbers if the machine is to blame."""
        return {"error": self.failure(error), **behind(error)}

    def place(self, error):
        own = os.path.dirname(self.script)
        if isinstance(error, SyntaxError) and error.filename:
            return f" (line {error.lineno} of {self.named(error.filename)})"
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(own)]
        if not frames:
            return ""
        last = frames[-1]
        inside = "" if last.name == "<module>" else f" in `{last.name}`"
        return f" (line {last.lineno} of {self.named(last.filename)}{inside})"

    def named(self, file):
        """The name of a file of the stage. The script has a name of the engine's in its folder."""
        own = os.path.dirname(self.script)
        if file == self.script:
            return "the script"
        return f"`{os.path.relpath(file, own) if file.startswith(own) else os.path.basename(file)}`"

    # Work.

    def start(self, hello):
        self.script, self.form, self.kinds = hello["script"], hello["form"], hello["outputs"]
        self.item_kinds = hello["item_outputs"]
        try:
            self.function, how = load(self.script, hello["function"])
            random.seed(hello["seed"])
            make = how.get("setup")
            self.state, self.batched = make(Setup(hello)) if make else None, bool(how.get("batch"))
        except Refusal as error:
            return self.refuse(str(error))
        except (Exception, SystemExit) as error:
            return self.refuse(self.failure(error), numbers_of(error))
        outputs, version = how.get("outputs"), how.get("version")
        code = getattr(self.function, "__code__", None)
        takes_any = code is not None and code.co_flags & VARARGS
        self.takes_state = takes_any or (code.co_argcount > 1 if code else make is not None)
        self.send(
            type="ready", protocol=PROTOCOL, version=version and str(version), outputs=outputs, batch=self.batched
        )
        return True

    def refuse(self, reason, numbers=()):
        self.send(type="refused", reason=reason, numbers=list(numbers))
        return False

    def call(self, given):
        return self.function(given, self.state) if self.takes_state else self.function(given)

    def item(self, line):
        item = Item(line.get("name", ""), **{name: value_of(value) for name, value in line["fields"].items()})
        item.handle, item.seed, item.out, item.given = line["id"], line["seed"], line["out"], dict(item)
        return item

    def seed(self, seed):
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(seed)

    def items(self, request, items):
        results, done = [], 0
        for part in [items] if self.batched else [[item] for item in items]:
            if self.is_cancelled(request):
                break
            results += self.part(part)
            done += len(part)
            if done < len(items):
                self.send(type="progress", request=request, done=done)
        self.send(type="done", request=request, results=results)

    def part(self, items):
        """Calls the function for a batch, and halves the batch after an exception to find its items."""
        try:
            # Results must not depend on the batch, so a batch uses the seed of no item.
            self.seed(0 if self.batched else items[0].seed)
            made = self.call(items) if self.batched else [self.call(items[0])]
            if not isinstance(made, (list, tuple)) or len(made) != len(items):
                raise TypeError(f"the function should return a list of {len(items)} results")
        except Reject as reject:
            if len(items) == 1:
                return [{"id": items[0].handle, "reject": str(reject)[:KEPT].encode("utf-8", "replace").decode()}]
        except (Exception, SystemExit) as error:
            if len(items) == 1:
                return [{"id": items[0].handle, **self.failed(error)}]
        else:
            return [self.result(item, fields) for item, fields in zip(items, made)]
        half = len(items) // 2
        return self.part(items[:half]) + self.part(items[half:])

    def result(self, item, fields):
        if isinstance(fields, Reject):
            return {"id": item.handle, "reject": str(fields)[:KEPT].encode("utf-8", "replace").decode()}
        try:
            return {"id": item.handle, "fields": self.fields(fields, self.kinds, item.out)}
        except Exception as error:
            return {"id": item.handle, **self.failed(error)}

    def all(self, request, items, out):
        try:
            self.seed(self.stage_seed)
            made = self.call(items)
            fields, kept = made if isinstance(made, tuple) else (made, None)
            message = {"fields": self.fields(fields or {}, self.kinds, out)}
            if kept is not None:
                message["items"] = [self.kept(item, number, out) for number, item in enumerate(kept)]
            self.send(type="made", request=request, **message)
        except Reject as reject:
            reason = str(reject)[:KEPT].encode("utf-8", "replace").decode()
            self.send(type="failed", request=request, reason=f"the function rejected the data set: {reason}")
        except (Exception, SystemExit) as error:
            self.send(type="failed", request=request, reason=self.failure(error), **behind(error))

    def kept(self, item, number, out):
        folder = os.path.join(out, f"item-{number}")
        own = {name: value for name, value in item.items() if name in self.item_kinds}
        for name, value in item.items():
            if name not in own and value is not item.given.get(name, self):
                raise KeyError(f"the item `{item.id}` has a new `{name}`, which is not in `item_outputs` of the stage")
        if own:
            os.makedirs(folder, exist_ok=True)
        fields = self.fields(own, self.item_kinds, folder, f"item-{number}/")
        return {"id": str(item.id), "handle": item.handle, "fields": fields}

    def fields(self, fields, kinds, out, above=""):
        """The outputs in the form that the engine reads: bytes become files."""
        if not isinstance(fields, dict):
            raise TypeError(f"the function should return a dict of its outputs, not {type(fields).__name__}")
        sent = {}
        for name, value in fields.items():
            kind = kinds.get(name)
            if kind is None:
                raise KeyError(f"`{name}` is not in `outputs` of the stage")
            if kind == "number":
                value = float(value)
                if not math.isfinite(value):
                    raise ValueError(f"the output `{name}` is {value}")
            elif kind == "text":
                value = str(value)
                value.encode()
            elif isinstance(value, (bytes, bytearray, memoryview)):
                place = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
                with open(os.path.join(out, f"bytes-{len(sent)}-{place}"), "wb") as file:
                    file.write(value)
                value = {"path": above + os.path.basename(file.name)}
            else:
                path = os.path.join(out, os.fspath(value))
                inside = os.path.relpath(path, out)
                leads_out = inside.split(os.sep)[0] == os.pardir and os.path.isabs(value)
                # The engine refuses a path outside the folder, and names it as the function gave it.
                value = {"path": path if leads_out else above + inside}
            sent[str(name)] = value
        return sent

    def run(self):
        # The engine ends this process; a Ctrl-C in its terminal is a request to the engine.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        hello = self.receive()
        if hello is None or not self.start(hello):
            return
        self.stage_seed, waiting = hello["seed"], []
        while (message := self.receive()) is not None and message["type"] != "stop":
            if message["type"] == "batch":
                waiting += [self.item(line) for line in message["items"]]
                if message["more"]:
                    continue
                if self.form == "all":
                    self.all(message["request"], waiting, message["out"])
                else:
                    self.items(message["request"], waiting)
                waiting = []


def main():
    Worker().run()
