"""The results as a page in Markdown."""

import statistics


def of(lab, results):
    lines = [f"# Results on `{lab.device}`", ""]
    figures = results.get("machine", {}).get("figures") or {}
    lines += [f"- {described(device)}" for device in figures.get("devices", [])]
    lines += ["", "| part | state | seconds | reason |", "|---|---|---|---|"]
    for name, result in results.items():
        reason = cell(result.get("reason", ""))
        lines.append(f"| {name} | {result['state']} | {result.get('seconds', '')} | {reason} |")
    for name, result in results.items():
        write, found = WRITERS.get(name), result.get("figures")
        if write and found:
            lines += ["", f"## {name}", "", *write(found)]
    return "\n".join(lines) + "\n"


def cell(text):
    """A text in a table is one line without bars."""
    return " ".join(str(text).replace("|", "/").split())[:400]


def described(device):
    capability = device.get("compute_capability")
    total = device.get("memory_total")
    known = [device["name"], device.get("model"),
             capability and f"compute capability {capability}", total and gigabytes(total)]
    return ", ".join(part for part in known if part)


def gigabytes(number):
    return f"{number / 1e9:.2f} GB"


def fixtures(found):
    """The largest difference of each fixture, divided by its tolerance."""
    precisions = list(next(iter(found.values())))
    lines = ["The largest difference of each fixture, divided by its tolerance "
             "(`throstle-torch --help` has the tolerances).", "",
             f"| fixture | {' | '.join(precisions)} |", "|---" * (len(precisions) + 1) + "|"]
    for name, row in found.items():
        lines.append(f"| {name} | {' | '.join(share(row[each]) for each in precisions)} |")
    return lines


def share(own):
    if "not_run" in own:
        return f"not run: {cell(own['not_run'])}"
    return f"OFF: {cell(', '.join(own['off'][:4]))}" if own["off"] else f"{own['worst']:.2f}"


def demo(found):
    lines = ["| manifest | seconds | with nothing to do | devices |", "|---|---|---|---|"]
    return lines + [f"| {row['manifest']} | {row['seconds']} | {row['again']} | "
                    f"{', '.join(row['devices'])} |" for row in found]


def resume(found):
    lines = ["Largest relative difference of the loss of a step, against a training that was not "
             "killed.", "", "| model | resumed at step | difference | bound |", "|---|---|---|---|"]
    return lines + [f"| {name} | {row['resumed_at']} | {row['difference']:.1e} | {row['bound']:.0e} |"
                    for name, row in found.items()]


def out_of_memory(found):
    return [f"With {gigabytes(found['limit_bytes'])} a training ended with code {found['code']}: "
            f"{cell(found['told'])}."]


def memory(found):
    lines = ["| training | plan | measured | plan against measured | seconds: plan | measured |",
             "|---|---|---|---|---|---|"]
    for row in found:
        plan = row["planned"] or {}
        band = f"{gigabytes(plan['likely'])} ({gigabytes(plan['low'])} to {gigabytes(plan['high'])})"\
            if plan else "none"
        off = f"{100 * row['off']:+.0f} %" if "off" in row else ""
        lines.append(f"| {row['size']} | {band} | {gigabytes(row['measured'])} | {off} | "
                     f"{seconds(row.get('planned_seconds'))} | {row['measured_seconds']:.1f} |")
    return lines


def seconds(band):
    return f"{band['likely']:.1f} ({band['low']:.1f} to {band['high']:.1f})" if band else "none"


def devices(found):
    return [f"The same training took {found['one']:.1f} s on `{found['devices'][0]}` and "
            f"{found['two']:.1f} s on {', '.join(found['devices'])}; losses differ by "
            f"{found['difference']:.1e} (bound {found['bound']:.0e})."]


def training(found):
    rows = [row for row in found["rows"] if row["seconds"]]
    original = next((statistics.median(row["seconds"]) for row in rows if row["side"] == "original"), None)
    lines = [*absent(found), "| side | switches | a step | against the original | peak memory | plan "
             "| loss of the last step |", "|---|---|---|---|---|---|---|"]
    for row in found["rows"]:
        if row["failure"] or not row["seconds"]:
            lines.append(f"| {row['side']} | {row['label']} | failed: {cell(row['failure'])} | | | | |")
            continue
        own = statistics.median(row["seconds"])
        ratio = f"{original / own:.2f}x as fast" if original else "not run"
        loss = row["losses"][-1]
        lines.append(f"| {row['side']} | {row['label']} | {own:.3f} s | {ratio} | "
                     f"{gigabytes(row['peak'] or 0)} | "
                     f"{gigabytes(row['planned']) if row.get('planned') else ''} | "
                     f"{'none' if loss is None else f'{loss:.4f}'} |")
    return lines


def absent(found):
    if found["original"] == "run":
        return []
    return [f"The original code was not run: {cell(found['original'])}.", ""]


def generation(found):
    lines = [*absent(found), "| generation | frames a second | against one sentence | CPU seconds a "
             "frame |", "|---|---|---|---|"]
    return lines + [f"| {row['name']} | {row['frames_per_second']:.2f} | {row['ratio']:.2f} | "
                    f"{row['cpu_seconds']:.3f} |" for row in found["rows"]]


def codec(found):
    lines = [*absent(found), "| side | work | seconds of audio a second |", "|---|---|---|"]
    return lines + [f"| {row['side']} | {row['work']} | {row['speed']:.2f} |"
                    for row in found["rows"]]


WRITERS = {
    "fixtures": fixtures, "demo": demo, "resume": resume, "out-of-memory": out_of_memory,
    "memory": memory, "devices": devices, "training-dual_ar": training, "training-vits": training,
    "training-xtts": training, "generation": generation, "codec": codec,
}
