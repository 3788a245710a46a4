"""The `launch` command: flags made from the config structs, checks, and then the cluster."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from cluster.config import ClusterConfig
from cluster.errors import ConfigError, ModelError, StartupError
from cluster.launch.config_sources import (
    read_environment,
    read_settings_file,
    resolve_config,
    suggest,
    unknown_variables,
)
from cluster.launch.contradictions import check_contradictions
from cluster.launch.devices import list_gpus, resolve_device, torch_can_use_gpus
from cluster.launch.embedded_model import ensure_embedded_model
from cluster.launch.exit_codes import ExitCode
from cluster.launch.key_files import with_keys_of_files
from cluster.launch.launcher import run_cluster
from cluster.launch.listener import bind_listener
from cluster.launch.model_folder import check_model_folder
from cluster.launch.settings import Setting, list_settings
from cluster.launch.supervisor import STOP_SIGNALS
from cluster.launch.tls_files import with_tls_files

_DESCRIPTION = "Serve one model from several replicas behind one OpenAI-compatible endpoint."
_EPILOG = (
    "Every setting may also stand in the --config file, under its heading's table, or in the "
    "environment as QUADRIGA_<NAME>; the command line wins over the environment, and that over the "
    "file."
)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def build_parser() -> argparse.ArgumentParser:
    """The command line of `launch`: a flag for every setting, a group for every section."""
    parser = _Parser(
        prog="launch",
        usage="launch [--model FOLDER] [--dp N] [other flags]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file with settings.")
    groups: dict[str, argparse._ArgumentGroup] = {}
    for setting in list_settings():
        if setting.section not in groups:
            title = f"{setting.heading} [{setting.section}]"
            groups[setting.section] = parser.add_argument_group(title)
        _add_flag(groups[setting.section], setting)
    return parser


def _add_flag(group: argparse._ArgumentGroup, setting: Setting) -> None:
    """Values stay texts here: `Setting.parse` reads them for every source alike."""
    options: dict[str, Any] = {"dest": setting.name, "default": argparse.SUPPRESS}
    if setting.is_switch:
        options["action"] = argparse.BooleanOptionalAction
    else:
        options["metavar"] = setting.placeholder
    if setting.is_list:
        options["action"] = "append"
    group.add_argument(*setting.flags, help=_help(setting).replace("%", "%%"), **options)


def _help(setting: Setting) -> str:
    text = setting.description
    if not setting.is_switch and setting.limit not in ("a text", "a list of texts"):
        text += f" {setting.limit[0].upper()}{setting.limit[1:]}."
    if setting.default not in (None, []):
        default = setting.default
        shown = ("on" if default else "off") if isinstance(default, bool) else default
        text += f" Default: {shown}."
    return text


def read_command_line(arguments: Sequence[str]) -> tuple[Path | None, dict[str, Any]]:
    """The --config file and the values of the flags, by field name.

    Raises ConfigError, naming the flag, if one is unknown or its value out of the limits.
    """
    parser = build_parser()
    given, unknown = parser.parse_known_args(arguments)
    if unknown:
        flags = [flag for setting in list_settings() for flag in setting.flags]
        raise ConfigError(f"there is no flag {unknown[0]}{suggest(unknown[0], flags)}")
    texts = vars(given)
    file: Path | None = texts.pop("config")
    settings = {setting.name: setting for setting in list_settings()}
    return file, {
        name: settings[name].check(value, settings[name].flags[0])
        if isinstance(value, (bool, list))
        else settings[name].parse(value, settings[name].flags[0])
        for name, value in texts.items()
    }


def read_config(arguments: Sequence[str]) -> ClusterConfig:
    """The configuration that file, environment and command line come to.

    Raises ConfigError, in one line, for anything that is wrong with them.
    """
    file, flags = read_command_line(arguments)
    config = resolve_config(
        read_settings_file(file) if file is not None else {}, read_environment(os.environ), flags
    )
    check_contradictions(config)
    return config


def resolve_machine(config: ClusterConfig) -> ClusterConfig:
    """The configuration with devices and files checked against this machine, paths made absolute.

    Raises ConfigError if something that it names is not here.
    """
    replace = msgspec.structs.replace
    device, devices = resolve_device(config, list_gpus(), torch_can_use_gpus())
    template = config.frontend.chat_template
    if template is not None and not Path(template).is_file():
        raise ConfigError(f"--chat-template {template} is not a file")
    frontend = with_tls_files(with_keys_of_files(config.frontend))
    return replace(
        config,
        engine=replace(config.engine, device=device, devices=devices or None),
        frontend=replace(frontend, chat_template=template and str(Path(template).resolve())),
    )


def resolve_model(config: ClusterConfig) -> ClusterConfig:
    """The configuration with the model's folder, checked; the embedded model's if none is named.

    Raises ModelError if the folder cannot be served, StartupError if a conversion fails.
    """
    model = config.model
    folder = _model_folder(model.model) if model.model else ensure_embedded_model()
    check_model_folder(folder, model.max_model_len)
    model = msgspec.structs.replace(
        model, model=str(folder), served_model_name=model.served_model_name or folder.name
    )
    return msgspec.structs.replace(config, model=model)


def _model_folder(given: str) -> Path:
    try:
        return Path(given).expanduser().resolve()
    except (RuntimeError, ValueError) as error:  # no such user, links that lead to themselves, NUL
        raise ModelError(f"--model {given!r} is not a folder: {error}") from None


def launch(arguments: Sequence[str]) -> ExitCode:
    """Run the command. Raises ConfigError or StartupError where it does not come to that."""
    config = resolve_machine(read_config(arguments))
    for variable in unknown_variables(os.environ):
        print(f"launch: the environment's {variable} is no setting", file=sys.stderr)
    with bind_listener(config.frontend.host, config.frontend.port) as listener:
        return run_cluster(resolve_model(config), listener)


def main() -> int:
    """The entry point."""
    return to_exit_code(lambda: launch(sys.argv[1:]))


def _leave(number: int, _: object) -> NoReturn:
    for other in STOP_SIGNALS:
        signal.signal(other, signal.SIG_IGN)  # a second one must not abort the clean-up
    sys.exit(STOP_SIGNALS[signal.Signals(number)])


def to_exit_code(run: Callable[[], ExitCode]) -> ExitCode:
    """How `run` ended; what it could not do is said in one line on standard error."""
    # While no event loop watches the signals, they must not skip the clean-up either.
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    try:
        return run()
    except ConfigError as error:
        print(f"launch: {error}", file=sys.stderr)
        return ExitCode.BAD_SETTING
    except StartupError as error:
        print(f"launch: {error}", file=sys.stderr)
        return ExitCode.NOT_STARTED
