#!/usr/bin/env python3
"""Checks packaging/grafana/clockscope.json: the types of Grafana's SDK, and the rules of Grafana's dashboard-linter.

Usage: tests/fleet/dashboard.py DIRECTORY
DIRECTORY keeps a Python environment with grafana-foundation-sdk, which is made the first time. Its types are made from
Grafana's own schemas. What they do not know is lost when a dashboard is read, so what is read and written again must
be what it was; where Grafana has a default, more may come out.
"""
import copy
import json
import re
import subprocess
import sys
import venv
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DASHBOARD = REPOSITORY / "packaging/grafana/clockscope.json"
SDK = "grafana-foundation-sdk==1769699379!11.6.0"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Units of Grafana that the panels use.
UNITS = {"short", "s", "dateTimeAsIso"}
NEEDS_UNIT = {"stat", "gauge", "timeseries", "table", "bargauge"}


def lost(before, after, at="dashboard"):
    """Entries of `before` that are missing in `after`, with their places."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                # Grafana's types may leave out an empty value.
                if value not in (None, [], {}, "", False, 0):
                    yield f"{at}.{key} is not known"
            else:
                yield from lost(value, after[key], f"{at}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{at} has {len(before)} elements, and {len(after)} are known"
        for number, (one, other) in enumerate(zip(before, after)):
            yield from lost(one, other, f"{at}[{number}]")
    elif before != after:
        yield f"{at} is {before!r}, and read as {after!r}"


def typed(dashboard):
    """Complaints of Grafana's types about the dashboard."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard
    register_default_plugins()
    try:
        known = Dashboard.from_json(copy.deepcopy(dashboard))
        again = json.loads(JSONEncoder().encode(known))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return [f"the types refuse it: {type(error).__name__}: {error}"]
    return list(lost(dashboard, again))


def linted(dashboard):
    """The rules of dashboard-linter that concern Prometheus."""
    if dashboard["editable"]:
        yield "the dashboard can be edited, although it is provisioned"
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    datasource = variables.get("datasource", {})
    if (datasource.get("type"), datasource.get("query"), datasource.get("label")) != ("datasource", "prometheus", "Data source"):
        yield "there is no variable `datasource` for Prometheus, labelled `Data source`"
    for name in ("job", "instance"):
        variable = variables.get(name, {})
        wanted = {"type": "query", "datasource": DATASOURCE, "label": name.title(), "multi": True, "includeAll": True,
                  "allValue": ".+", "refresh": 2}
        for key, value in wanted.items():
            if variable.get(key) != value:
                yield f"the variable `{name}` has not {key} = {value!r}"
    identities = [panel["id"] for panel in dashboard["panels"]]
    if len(set(identities)) != len(identities):
        yield "two panels have the same id"
    for panel in dashboard["panels"]:
        yield from (f"panel `{panel['title']}`: {fault}" for fault in panel_faults(panel))


def panel_faults(panel):
    if not panel["title"] or not panel.get("description"):
        yield "no title or no description"
    if panel["datasource"] != DATASOURCE:
        yield "another datasource than the variable"
    if panel["type"] in NEEDS_UNIT and panel["fieldConfig"]["defaults"].get("unit") not in UNITS:
        yield "no unit"
    if not panel["targets"]:
        yield "no targets"
    for target in panel["targets"]:
        expression = target["expr"]
        if target["datasource"] != DATASOURCE:
            yield "a target with another datasource"
        # Each selector must use both variables, so that the variables work.
        for selector in re.findall(r"\{([^{}]*)\}", expression):
            if 'job=~"$job"' not in selector or 'instance=~"$instance"' not in selector:
                yield f"a selector without job and instance: {{{selector}}}"
        if "{" not in expression:
            yield f"no selector: {expression}"
        if re.search(r"\b(rate|irate|increase)\(", expression) and "[$__rate_interval]" not in expression:
            yield f"a rate over another time than $__rate_interval: {expression}"


def overlapping(dashboard):
    taken = {}
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            if x >= 24:
                yield f"panel `{panel['title']}` is wider than the screen"
                break
            for y in range(at["y"], at["y"] + at["h"]):
                other = taken.setdefault((x, y), panel["title"])
                if other != panel["title"]:
                    yield f"panels `{other}` and `{panel['title']}` lie over each other"
                    return


def faults(dashboard):
    # If the types refuse the dashboard, it cannot be checked further.
    return typed(dashboard) or [*linted(dashboard), *overlapping(dashboard)]


def planted(dashboard):
    """Faults, each of which must be found."""
    def change(of):
        other = copy.deepcopy(dashboard)
        of(other)
        return other
    return {
        "a word that no type has": change(lambda d: d["panels"][0]["options"].update(colourMode="value")),
        "a wrong type": change(lambda d: d["panels"][0].update(targets={"expr": "up"})),
        "no unit": change(lambda d: d["panels"][0]["fieldConfig"]["defaults"].pop("unit")),
        "no title": change(lambda d: d["panels"][0].update(title="")),
        "no matcher": change(lambda d: d["panels"][0]["targets"][0].update(expr='count(up{job=~"$job"})')),
        "a fixed datasource": change(lambda d: d["panels"][0].update(datasource={"type": "prometheus", "uid": "x"})),
        "no variable": change(lambda d: d["templating"]["list"].pop()),
        "panels over each other": change(lambda d: d["panels"][1]["gridPos"].update(x=0)),
    }


def environment(directory):
    """Runs this again with the SDK, which is installed there first if need be."""
    folder = directory / "grafana"
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text() != SDK:
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", SDK], check=True, timeout=600)
        stamp.write_text(SDK)
    return subprocess.run([folder / "bin/python", __file__, "--with-sdk"], check=False).returncode


def main():
    if sys.argv[1:] != ["--with-sdk"]:
        if len(sys.argv) != 2:
            sys.exit("usage: tests/fleet/dashboard.py DIRECTORY")
        sys.exit(environment(Path(sys.argv[1]).resolve()))
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = faults(dashboard)
    for fault in found:
        print(f"tests/fleet/dashboard.py: {fault}", file=sys.stderr)
    missed = [name for name, other in planted(dashboard).items() if not set(faults(other)) - set(found)]
    for name in missed:
        print(f"tests/fleet/dashboard.py: not found when planted: {name}", file=sys.stderr)
    if found or missed:
        sys.exit(1)
    print(f"dashboard: {len(dashboard['panels'])} panels have Grafana's types and keep its linter's rules; 8 planted faults are found")


if __name__ == "__main__":
    main()
