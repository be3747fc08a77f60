"""Completion scripts for bash and zsh, written from the parser: nothing is asked of ptqlab while a user types."""
from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable

from ptqlab.cli.parser import SHELLS, Parser, endings

FRAME = """\
{head}# Completion of ptqlab in {shell}; made by `ptqlab completion {shell}`.
# {use}
_ptqlab_paths() {{  # folders, and files with one of the endings
    local ending
    COMPREPLY+=($(compgen -d -S / -- "$cur"))
    for ending in "$@"; do COMPREPLY+=($(compgen -f -X '!*'"$ending" -- "$cur")); done
}}
_ptqlab() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="" verb="" word
    [[ $COMP_CWORD -gt 0 ]] && prev="${{COMP_WORDS[COMP_CWORD-1]}}"
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$word" in {verbs}) verb="$word"; break ;; esac
    done
    COMPREPLY=()
    case "$verb:$prev" in
{values}    esac
    if [[ "$cur" == -* || -z "$verb" ]]; then
        case "$verb" in
{options}        esac
        return
    fi
    case "$verb" in
{positionals}    esac
}}
complete -o nospace -F _ptqlab ptqlab
"""
HEADS = {"bash": "", "zsh": "#compdef ptqlab\nautoload -U +X bashcompinit && bashcompinit\n"}
USES = {"bash": 'In ~/.bashrc: eval "$(ptqlab completion bash)"',
        "zsh": 'In ~/.zshrc, behind compinit: eval "$(ptqlab completion zsh)"'}


def script(parser: Parser, shell: str) -> str:
    """Text of the script for one of SHELLS."""
    assert shell in SHELLS, shell
    verbs = parser.verbs()
    values = [_case(f":{option}", reply) for option, action in parser.options().items() if (reply := _reply(action))]
    positionals = []
    for name, verb in verbs.items():
        values += [_case(f"{name}:{option}", reply)
                   for option, action in verb.options().items() if (reply := _reply(action))]
        found = [reply for action in verb.positionals() if (reply := _reply(action))]
        positionals.append(_case(name, found[0] if found else _words(verb.options())))
    options = [_case(name, _words(verb.options()), 3) for name, verb in verbs.items()]
    options.append(_case("*", _words([*verbs, *parser.options()]), 3))
    return FRAME.format(head=HEADS[shell], shell=shell, use=USES[shell], verbs="|".join(verbs),
                        values="".join(values), options="".join(options), positionals="".join(positionals))


def _reply(action: argparse.Action) -> str:
    """The command that offers what may stand behind an option, or in the place of a positional; "" for anything."""
    if action.choices is not None:
        return _words(str(choice) for choice in action.choices)
    found = endings(action)
    return "" if found is None else " ".join(["_ptqlab_paths", *map(shlex.quote, found)])


def _words(words: Iterable[str]) -> str:
    return f'COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$cur"))'


def _case(pattern: str, reply: str, depth: int = 2) -> str:
    end = "; return ;;" if ":" in pattern else " ;;"
    return f"{'    ' * depth}{pattern}) {reply}{end}\n"
