// How releases spread: the versions of clients by time, and the failing share.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Plot, styles } from "../charts/plot";
import type { Table } from "../charts/table";
import { clock, exact } from "../format";
import { t } from "../i18n";
import type { GuardOpinion, ReleaseSpread } from "../types.gen";
import { alarmOf, opinionOf } from "./verdict";
import { count, failing, sentenceOf, share } from "./words";

export function Spread({ of: a }: { of: ReleaseSpread }): JSX.Element {
  const first = Math.min(...a.history.flatMap((c) => c.points.map((p) => Date.parse(p.time))));
  return (
    <section class="panel" aria-label={t("adoption")}>
      <h2>{Number.isFinite(first) ? t("adoptionSince", { time: clock(first) }) : t("adoption")}</h2>
      {a.clients === 0 ? <p class="dim">{t("noClients")}</p> : <Curves of={a} />}
      {a.guard && <Failing of={a.guard} rolling={a.rollout !== undefined} />}
      {a.newest.kept + a.newest.waiting > 0 && <p>{t("downloads", { version: a.newest.version, waiting: count(a.newest.waiting), kept: count(a.newest.kept) })}</p>}
    </section>
  );
}

/** The curves as one table: a row for each time that any of them has. */
export function tableOf(history: ReleaseSpread["history"]): Table {
  const rows = new Map<number, number[]>();
  history.forEach((curve, i) => curve.points.forEach((p) => {
    const at = Math.round(Date.parse(p.time) / 1000);
    const row = rows.get(at) ?? [];
    row[i] = p.clients;
    rows.set(at, row);
  }));
  const times = [...rows.keys()].sort((a, b) => a - b);
  return { times, columns: history.map((_, i) => times.map((at) => rows.get(at)![i])) };
}

function Curves({ of: a }: { of: ReleaseSpread }): JSX.Element {
  const table = useMemo(() => tableOf(a.history), [a]);
  const colors = colorsOf(a.history.map((c) => c.version));
  const [row, setRow] = useState<number | null>(null);
  const last = table.times.length - 1;
  const at = row ?? last;
  const range = { start: (table.times[0] ?? 0) * 1000, stop: Math.max((table.times[last] ?? 0) * 1000, (table.times[0] ?? 0) * 1000 + 60_000) };
  return (
    <>
      {table.times.length > 1 && (
        <Plot table={table} lines={a.history.map((c, i) => ({ name: c.version, color: colors[i]! }))} unit="" range={range} height={180} hover={setRow} zero />
      )}
      <table class="legend">
        <caption class="hidden">{t("adoption")}</caption>
        <tbody>
          {a.history.map((c, i) => (
            <tr key={c.version}>
              <th scope="row"><span class={"swatch series-" + (colors[i]! % styles) + (colors[i]! >= styles ? " dashed" : "")} /> {c.version}</th>
              <td class="now">{count(Math.round(row === null ? current(a, c.version) : table.columns[i]?.[at] ?? 0))}</td>
              <td class="dim">{row === null ? share(current(a, c.version) / a.clients) : exact(table.times[at]! * 1000)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

/**
 * The colour of each version, which it keeps when newer ones come or old ones go: it
 * follows from the name, and of two with the same the older keeps it. Newest first.
 */
export function colorsOf(versions: string[]): number[] {
  const taken = new Set<number>();
  const most = styles * 2; // the second half is dashed
  const colors = versions.slice().reverse().map((version) => {
    let color = [...version].reduce((sum, c) => (sum * 31 + c.codePointAt(0)!) % 8191, 7) % styles;
    while (taken.has(color) && taken.size < most) color = (color + 1) % most;
    taken.add(color);
    return color;
  });
  return colors.reverse();
}

const current = (a: ReleaseSpread, version: string) => a.versions.find((v) => v.version === version)?.clients ?? 0;

/** The failing share with its bounds, against the guard's line and the release before, and what the guard makes of it. */
function Failing({ of: g, rolling }: { of: GuardOpinion; rolling: boolean }): JSX.Element {
  const { failing: now, before, limit } = g.verdict;
  const alarm = alarmOf(g);
  const said = opinionOf(g, rolling);
  const opinion = said.length > 0 && <p class={g.decision === "halt" ? "flag severe-text" : ""}>{said.join(" ")}</p>;
  if (now.of === 0) return <><p class="dim">{sentenceOf(failing(g))}</p>{opinion}</>;
  const had = (before?.of ?? 0) > 0 ? before!.count / before!.of : null;
  const top = Math.max(limit * 2, now.high, had ?? 0, 0.01);
  const x = (s: number) => (Math.min(s, top) / top) * 100;
  return (
    <div class="failing">
      <FailingShare of={g} />
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect class="scale" y="3" width="100" height="4" />
        <rect class="bounds" x={x(now.low)} y="3" width={x(now.high) - x(now.low)} height="4" />
        <rect class={"fill " + alarm} y="3" width={x(now.count / now.of)} height="4" />
        <rect class="limit" x={x(limit) - 0.2} width="0.4" height="10" />
        {had !== null && <rect class="step" x={x(had) - 0.2} y="1" width="0.4" height="8" />}
      </svg>
      <p class="dim">{t("failingLegend", { limit: share(limit), low: share(now.low), high: share(now.high) })}{had !== null && " " + t("failingMark", { version: g.before ?? "" })}</p>
      {opinion}
    </div>
  );
}

/** The failing share as a sentence; above the limit in colour and in words. */
export function FailingShare({ of: g }: { of: GuardOpinion }): JSX.Element {
  const alarm = alarmOf(g);
  const text = failing(g);
  return alarm ? <p class={`flag ${alarm}-text`}>▲ {t("aboveLimit")} {text}</p> : <p>{sentenceOf(text)}</p>;
}
