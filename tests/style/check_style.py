#!/usr/bin/env python3
"""The rules of the code that a compiler does not know, as a test.

check_style.py ROOT prints one line "file:line: text" per breach and exits 1 if there is any.
"""
import fnmatch
import pathlib
import re
import sys

FLOORS = ["runtime", "transport", "collectives", "api"]  # each may include those before it
FILE_LINES = 500
FUNCTION_LINES = 60
SHORT_LINES, SHORT_SHARE = 35, 0.9  # so many functions must be that short

# What only some files may include, themselves or through a header.
FOREIGN = [
    (re.compile(r"<pmix"), "runtime/bootstrap_pmix.c", "PMIx"),
    (re.compile(r"<(infiniband|rdma)/"), "transport/verbs_*.[ch]", "verbs"),
]
ENVIRONMENT = re.compile(r"\b(getenv|secure_getenv|setenv|putenv|unsetenv|environ)\b")
BANNED = re.compile(
    r"\b(exit|_exit|_Exit|quick_exit|abort|sprintf|vsprintf|strcpy|strcat|gets|alloca)\s*\(")
ALLOWED_CALLS = {("runtime/bootstrap_local.c", "_exit")}  # how a forked rank ends
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+(<[^>]+>|"[^"]+")', re.M)
COMMENT_OR_STRING = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.M)
DECORATION = re.compile(
    r"\b(?:__attribute__|_Alignas|alignas)\s*(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))")


def blank(match):
    """Spaces in place of a match, so that lines keep their numbers."""
    return re.sub(r"[^\n]", " ", match.group())


def blank_comment(match):
    return match.group() if match.group()[0] in "\"'" else blank(match)


class Source:
    def __init__(self, root, path):
        self.name = path.relative_to(root).as_posix()
        self.floor = self.name.split("/")[0]
        self.text = path.read_text()
        self.no_comments = COMMENT_OR_STRING.sub(blank_comment, self.text)
        bare = COMMENT_OR_STRING.sub(blank, self.text)
        self.calls = bare  # macros included
        self.code = DECORATION.sub(blank, PREPROCESSOR.sub(blank, bare))
        self.includes = [(m.start(), m.group(1)) for m in INCLUDE.finditer(self.no_comments)]

    def at(self, offset, text):
        return f"{self.name}:{self.text.count(chr(10), 0, offset) + 1}: {text}"


def top_level(code):
    """Yields (start, text, body) of what stands outside all braces: functions with their body, and
    statements (body None) with the contents of their braces left out."""
    text, start, depth, opened, function = "", 0, 0, 0, False
    for i, c in enumerate(code):
        if depth == 0 and not text and c.isspace():
            continue
        if depth == 0 and not text:
            start = i
        if c == "{":
            if depth == 0:
                opened, function = i, "=" not in text and text.rstrip().endswith(")")
                text += "{}"
            depth += 1
        elif c == "}":
            depth -= 1
            if depth == 0 and function:
                yield start, text, code[opened:i + 1]
                text = ""
        elif depth == 0 and c == ";":
            yield start, text, None
            text = ""
        elif depth == 0:
            text += c


def is_mutable_variable(statement):
    """Whether a declaration at file scope, or one with static, makes something that can change."""
    declarator = statement.split("=")[0].replace("{}", " ").strip()
    if re.match(r"(typedef|extern|static_assert|_Static_assert)\b", declarator) or not declarator:
        return False
    if re.fullmatch(r"(struct|union|enum)(\s+\w+)?", declarator):
        return False
    pointer = re.match(r"[^(]*\(\s*\*([^)]*)\)", declarator)  # a variable that points to a function
    if pointer:
        return "const" not in pointer.group(1)
    if "(" in declarator:
        return False
    return not re.search(r"\bconst\b", declarator.rsplit("*", 1)[-1])


def check_text(source):
    if not source.text.startswith("/*"):
        yield source.at(0, "the first comment must say what lives in this file")
    lines = source.text.split("\n")
    if len(lines) - 1 > FILE_LINES:
        yield source.at(0, f"{len(lines) - 1} lines, at most {FILE_LINES}")
    for match in re.finditer(r"[ \t\r]+$|\t", source.text, re.M):
        yield source.at(match.start(), "tab or trailing space")
    for match in UNFINISHED.finditer(source.text):
        yield source.at(match.start(), f"unfinished: {match.group()}")


def check_calls(source):
    for match in BANNED.finditer(source.calls):
        if (source.name, match.group(1)) not in ALLOWED_CALLS:
            yield source.at(match.start(), f"banned call: {match.group(1)}")
    if source.name != "runtime/config.c":
        for match in ENVIRONMENT.finditer(source.calls):
            yield source.at(match.start(), f"{match.group()}: only runtime/config.c may")


def check_includes(source):
    for offset, target in source.includes:
        floor = target.strip('<>"').split("/")[0]
        if ".." in target:
            yield source.at(offset, f"include {target}: paths start at the project root")
        if floor not in FLOORS:
            continue
        if source.floor not in FLOORS:
            yield source.at(offset, f"include {target}: {source.floor} sees include/ only")
        elif FLOORS.index(floor) > FLOORS.index(source.floor):
            yield source.at(offset, f"include {target}: up, from {source.floor}")


def check_foreign(source, sources):
    seen, queue = set(), [source.name]
    while queue:
        name = queue.pop()
        if name in seen or name not in sources:
            continue
        seen.add(name)
        for _, target in sources[name].includes:
            queue.append(target.strip('<>"'))
            for pattern, allowed, what in FOREIGN:
                if pattern.match(target) and not fnmatch.fnmatch(source.name, allowed):
                    yield source.at(0, f"includes {what} ({target} in {name}): only {allowed} may")


def check_variables(source):
    for start, statement, body in top_level(source.code):
        if body is None and is_mutable_variable(statement):
            yield source.at(start, "mutable variable at file scope: " + " ".join(statement.split()))
        for match in re.finditer(r"\b(?:static|_Thread_local|thread_local)\b[^;{]*", body or ""):
            if is_mutable_variable(match.group()):
                yield source.at(start, f"mutable static variable: {match.group().strip()}")


def functions(source):
    """Yields (start, lines) of every function."""
    for start, statement, body in top_level(source.code):
        if body is not None:
            head = source.code[start:source.code.index("{", start)]
            yield start, (head + body).count("\n") + 1


def check_lengths(sources):
    lengths = []
    for source in sources:
        for start, lines in functions(source):
            lengths.append(lines)
            if lines > FUNCTION_LINES:
                yield source.at(start, f"function of {lines} lines, at most {FUNCTION_LINES}")
    short = sum(n < SHORT_LINES for n in lengths)
    if short < SHORT_SHARE * len(lengths):
        yield (f"all: {short} of {len(lengths)} functions are under {SHORT_LINES} lines, "
               f"fewer than {SHORT_SHARE:.0%}")


def check(root):
    """All breaches below root, as lines of text."""
    root = pathlib.Path(root)
    paths = [p for top in FLOORS + ["apps"] for p in sorted((root / top).rglob("*.[ch]"))]
    sources = {s.name: s for s in (Source(root, p) for p in paths)}
    library = [s for s in sources.values() if s.floor in FLOORS]
    breaches = []
    for source in sources.values():
        breaches += check_text(source)
        breaches += check_includes(source)
    for source in library:
        breaches += check_calls(source)
        breaches += check_foreign(source, sources)
        breaches += check_variables(source)
    breaches += check_lengths(library)
    return breaches


if __name__ == "__main__":
    found = check(sys.argv[1])
    for breach in found:
        print(breach)
    sys.exit(1 if found else 0)
