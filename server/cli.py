"""The command ``voxloom``. Only what the chosen command needs is imported."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

# The default pipeline is named here, so that --help need not load the settings.
DEFAULT_PIPELINE = "hibari"
_FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
_EPILOG = """examples:
  voxloom serve --port 8000
  voxloom say "Good morning." -o morning.wav
  voxloom say -f book.txt -o book.mp3 --voice nova --speed 1.2
  voxloom voices
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0, 1 with one line on standard error, or 2 for a wrong command line."""
    arguments = build_parser().parse_args(argv)
    from engine.errors import ConfigError, VoxloomError

    try:
        module = importlib.import_module(f"server.commands.{arguments.command}")
        return int(module.run(arguments))
    except (ConfigError, VoxloomError) as error:
        return _fail(str(error))
    except BrokenPipeError:
        # The reader of our output has gone. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, UnicodeDecodeError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return 130


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="voxloom",
        description="Text to speech: a server with OpenAI's API, and a voice for the shell.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="serve speech over HTTP"))
    _add_say(commands.add_parser("say", help="speak a text, without a server"))
    voices = commands.add_parser("voices", help="list the voices")
    _add_pipeline(voices, DEFAULT_PIPELINE)
    _add_worker(commands.add_parser("worker", help="run a replica for an engine elsewhere"))
    _add_keys(commands.add_parser("keys", help="make the keys by which workers are let in"))
    return parser


def _add_pipeline(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument(
        "--pipeline",
        metavar="NAME_OR_YAML",
        default=default,
        help=f"a pipeline that ships with voxloom, or a YAML file (default: {DEFAULT_PIPELINE})",
    )


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve speech over HTTP. Settings come from here, else from the environment "
        "(VOXLOOM_HOST, VOXLOOM_API_KEY, VOXLOOM_ENGINE_MAX_RUNNING, ...; PORT), "
        "else from the config file (sections 'server' and 'engine'), else from the defaults."
    )
    _add_pipeline(parser, None)
    parser.add_argument(
        "--transcribe",
        metavar="NAME_OR_YAML",
        help="the pipeline that writes down speech, auto (if it is installed) or off "
        "(default: auto)",
    )
    parser.add_argument(
        "--talk",
        metavar="NAME_OR_YAML",
        help="the pipeline that holds conversations, auto (cascade, if VOXLOOM_THINKER_URL is set) "
        "or off (default: auto)",
    )
    parser.add_argument("--host", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="the port (default: $PORT, else 8000)")
    parser.add_argument("--config", metavar="FILE", help="a YAML file with settings")
    parser.add_argument("--api-key-file", metavar="FILE", help="keys that open it, one a line")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), help="(default: info)"
    )


def _add_say(parser: argparse.ArgumentParser) -> None:
    parser.description = "Speak a text to a file, to standard output or to the loudspeaker."
    parser.add_argument("text", nargs="?", help="the text (default: standard input)")
    parser.add_argument("-f", "--file", help="read the text from a file; - is standard input")
    parser.add_argument("-o", "--output", metavar="FILE", help="- is standard output")
    parser.add_argument("--play", action="store_true", help="play it as it is made")
    parser.add_argument("--format", choices=_FORMATS, help="(default: by FILE's extension)")
    parser.add_argument("--voice", help="a voice from 'voxloom voices' (default: the first)")
    parser.add_argument("--speed", type=float, default=1.0, help="from 0.25 to 4 (default: 1)")
    parser.add_argument("--seed", type=int, help="same text, same seed: same audio")
    _add_pipeline(parser, DEFAULT_PIPELINE)


def _add_worker(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run one replica of a stage that has 'placement: remote', on any machine that can reach "
        "the engine. The engine's log says where workers join."
    )
    parser.add_argument("--connect", metavar="tcp://HOST:PORT", required=True)
    parser.add_argument("--stage", metavar="NAME", required=True, help="the stage to work for")
    parser.add_argument("--key-file", metavar="FILE", help="this worker's keys (voxloom keys)")
    parser.add_argument(
        "--rejoin", action="store_true", help="join again when the engine has gone, do not end"
    )


def _add_keys(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    new = actions.add_parser("new", help="server.key, worker.key and allowed-workers in DIR")
    new.add_argument("folder", metavar="DIR")
    worker = actions.add_parser("worker", help="one more worker's key, NAME.key, in DIR")
    worker.add_argument("folder", metavar="DIR")
    worker.add_argument("name", metavar="NAME")


def _fail(message: str) -> int:
    print(f"voxloom: error: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
