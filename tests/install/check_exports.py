#!/usr/bin/env python3
"""check_exports.py HEADER LIBRARY: the library's dynamic symbols are those that the header declares
with TUTTI_API, no more and no less."""
import re
import subprocess
import sys

header, library = sys.argv[1:]
text = open(header).read()
text = re.sub(r"/\*.*?\*/|^\s*#(?:[^\n\\]|\\\n|\\.)*", "", text, flags=re.S | re.M)
text = re.sub(r'extern "C" \{', "", text)
text = re.sub(r"\{[^{}]*\}", "", text)  # members of structs and enums
functions = re.compile(r"^(.*?)\b(\w+)\s*\(", re.S)

declared, bare = set(), set()
for statement in text.split(";"):
    match = functions.match(statement.strip())
    if match and not match.group(1).startswith("typedef"):
        (declared if "TUTTI_API" in match.group(1) else bare).add(match.group(2))

nm = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                    stdout=subprocess.PIPE)
exported = {line.split()[-1] for line in nm.stdout.splitlines()}

breaches = [("declared but not exported", declared - exported),
            ("exported but not declared", exported - declared),
            ("declared without TUTTI_API", bare)]
for what, names in breaches:
    for name in sorted(names):
        print(f"{name}: {what}")
print(f"{len(declared)} functions declared, {len(exported)} exported")
sys.exit(0 if declared and declared == exported and not bare else 1)
