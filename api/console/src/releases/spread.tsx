// How releases spread: the versions of clients by time, and the failing share.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Plot, styles } from "../charts/plot";
import type { Table } from "../charts/table";
import { exact } from "../format";
import { t } from "../i18n";
import type { GuardOpinion, ReleaseSpread } from "../types.gen";
import { count, failing, share } from "./words";

export function Spread({ of: a }: { of: ReleaseSpread }): JSX.Element {
  return (
    <section class="panel" aria-label={t("adoption")}>
      <h2>{t("adoption")}</h2>
      {a.clients === 0 ? <p class="dim">{t("noClients")}</p> : <Curves of={a} />}
      {a.guard && <Failing of={a.guard} />}
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
  const [row, setRow] = useState<number | null>(null);
  const last = table.times.length - 1;
  const at = row ?? last;
  const range = { start: (table.times[0] ?? 0) * 1000, stop: Math.max((table.times[last] ?? 0) * 1000, (table.times[0] ?? 0) * 1000 + 60_000) };
  return (
    <>
      {table.times.length > 1 && (
        <Plot table={table} lines={a.history.map((c, i) => ({ name: c.version, color: i }))} unit="" range={range} height={180} hover={setRow} />
      )}
      <table class="legend">
        <caption class="hidden">{t("adoption")}</caption>
        <tbody>
          {a.history.map((c, i) => (
            <tr key={c.version}>
              <th scope="row"><span class={"swatch series-" + (i % styles) + (i >= styles ? " dashed" : "")} /> {c.version}</th>
              <td class="now">{count(Math.round(row === null ? current(a, c.version) : table.columns[i]?.[at] ?? 0))}</td>
              <td class="dim">{row === null ? share(current(a, c.version) / a.clients) : exact(table.times[at]! * 1000)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

const current = (a: ReleaseSpread, version: string) => a.versions.find((v) => v.version === version)?.clients ?? 0;

/** The failing share with its bounds, against the guard's line and the release before. */
function Failing({ of: g }: { of: GuardOpinion }): JSX.Element {
  const { failing: now, before, limit } = g.verdict;
  const halt = g.decision === "halt";
  if (now.of === 0) return <p class="dim">{failing(g)}</p>;
  const top = Math.max(limit * 2, now.high, (before?.of ?? 0) > 0 ? before!.count / before!.of : 0, 0.01);
  const x = (s: number) => (Math.min(s, top) / top) * 100;
  return (
    <div class="failing">
      <p class={halt ? "flag severe-text" : ""}>{halt && "▲ "}{failing(g)}</p>
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect class="scale" y="3" width="100" height="4" />
        <rect class="bounds" x={x(now.low)} y="3" width={x(now.high) - x(now.low)} height="4" />
        <rect class={halt ? "fill severe" : "fill"} y="3" width={x(now.count / now.of)} height="4" />
        <rect class="limit" x={x(limit) - 0.2} width="0.4" height="10" />
        {before && before.of > 0 && <rect class="step" x={x(before.count / before.of) - 0.2} y="1" width="0.4" height="8" />}
      </svg>
      <p class="dim">{t("failingLegend", { limit: share(limit), low: share(now.low), high: share(now.high) })}{before && before.of > 0 && " " + t("failingMark")}</p>
      {g.why && <p lang="en">{g.why}</p>}
    </div>
  );
}
