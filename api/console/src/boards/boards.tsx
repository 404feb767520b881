// The components that /indicatorCharts configures.

import type { JSX } from "preact";
import { Plot } from "../charts/plot";
import { useHistories } from "../charts/history";
import { isMissing, number, show } from "../format";
import { t } from "../i18n";
import { bandLevel, bands, colorLevel, type Level } from "../limits";
import type { Poll } from "../poll";
import type { Chart } from "../types.gen";
import { chartVars, hasHistory, list, memberVar, pumpVar, type Var } from "../variables";

export interface BoardProps {
  chart: Chart;
  poll: Poll;
}

/** A value with its unit, or that there is none. */
function Value({ v, poll }: { v: Var; poll: Poll }): JSX.Element {
  if (poll.at === null) return <span class="dim">…</span>;
  const shown = show(poll.values.get(v.key), v.varsTs, v.unit);
  if (shown.missing) return <span class="missing">{shown.text}</span>;
  return <span><b class="number">{shown.text}</b>{shown.unit && <span class="unit"> {shown.unit}</span>}</span>;
}

function Rows({ vars, poll }: { vars: Var[]; poll: Poll }): JSX.Element {
  return (
    <table class="plain">
      <tbody>
        {vars.map((v) => <tr key={v.key}><th scope="row">{v.name}</th><td class="right"><Value v={v} poll={poll} /></td></tr>)}
      </tbody>
    </table>
  );
}

export function ListBoard({ chart, poll }: BoardProps): JSX.Element {
  return <Rows vars={chartVars(chart)} poll={poll} />;
}

interface StateProps {
  name: string;
  v: Var;
  poll: Poll;
  level?: (on: boolean) => Level;
}

/** A state as a shape and a word: filled is on. */
function State({ name, v, poll, level }: StateProps): JSX.Element {
  const value = poll.values.get(v.key);
  const missing = isMissing(value);
  const on = Number(value) === 1;
  const wrong = missing ? "" : (level?.(on) ?? "");
  return (
    <li class={"state-tile " + wrong}>
      <span class={"lamp " + (missing ? "unknown" : on ? "lit" : "")} aria-hidden="true" />
      <span class="name">{name}</span>
      <span class={missing ? "missing" : "word"}>
        {poll.at === null ? "…" : missing ? t("noData") : t(on ? "on" : "off")}{wrong && " ▲"}
      </span>
    </li>
  );
}

export function PumpBoard({ chart, poll }: BoardProps): JSX.Element {
  const states = list(chart.data?.initialStates).map(pumpVar).filter((v) => v !== null);
  const pumps = list(chart.data?.initialPumps).map(pumpVar).filter((v) => v !== null);
  return (
    <>
      <ul class="states">{states.map((v) => <State key={v.key} name={v.name} v={v} poll={poll} />)}</ul>
      <Rows vars={pumps} poll={poll} />
    </>
  );
}

export function StatesBoard({ chart, poll }: BoardProps): JSX.Element {
  const items = list(chart.data?.items).flatMap((item) => {
    const { tsVar, label, colorOn, colorOff } = (item ?? {}) as Record<string, unknown>;
    const v = memberVar(tsVar);
    return v ? [{ v, name: typeof label === "string" ? label : v.name, colorOn, colorOff }] : [];
  });
  return (
    <ul class="states">
      {items.map(({ v, name, colorOn, colorOff }) => (
        <State key={name + v.key} name={name} v={v} poll={poll} level={(on) => colorLevel(on ? colorOn : colorOff)} />
      ))}
    </ul>
  );
}

function limit(chart: Chart, name: string): number | null {
  const value = chart.data?.[name];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** A value on a scale, between its limits. */
export function GaugeBoard({ chart, poll }: BoardProps): JSX.Element {
  const v = chartVars(chart)[0];
  if (!v) return <p class="dim">{t("noVariables")}</p>;
  const low = limit(chart, "min") ?? 0;
  const high = limit(chart, "max") ?? 100;
  const all = bands(chart);
  const value = poll.values.get(v.key);
  const share = (x: number) => Math.max(0, Math.min(1, (x - low) / (high - low || 1))) * 100;
  const level = typeof value === "number" ? bandLevel(all, value) : "";
  return (
    <div class={"gauge " + level}>
      <p class="value"><Value v={v} poll={poll} />{level && <span class="flag"> ▲ {t("outOfLimits")}</span>}</p>
      <svg viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true">
        <rect class="scale" x="0" y="6" width="100" height="6" />
        {all.filter((band) => band.level !== "").map((band) => (
          <rect
            key={band.from} class={"zone " + (bandLevel(all, value ?? NaN) === band.level ? band.level : "")}
            x={share(band.from)} y="6" width={share(band.to) - share(band.from)} height="6"
          />
        ))}
        {typeof value === "number" && <rect class="pointer" x={Math.min(98.5, share(value))} y="0" width="1.5" height="14" />}
      </svg>
      <p class="foot"><span>{number(low)}</span><span>{number(high)} {v.unit}</span></p>
    </div>
  );
}

const periodLengths: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Reads a sampling period such as 10m. */
function samplingOf(text: unknown): { text: string; ms: number } | undefined {
  const match = typeof text === "string" ? /^(\d+)([smhd])$/.exec(text) : null;
  return match ? { text: match[0], ms: Number(match[1]) * periodLengths[match[2]!]! } : undefined;
}

export function LineBoard({ chart, poll }: BoardProps): JSX.Element {
  const vars = chartVars(chart);
  const drawn = vars.filter(hasHistory);
  const history = useHistories(drawn, { period: "24h" }, samplingOf(chart.props?.samplingPeriod));
  return (
    <>
      {history.table
        ? <Plot table={history.table} lines={drawn.map((v, color) => ({ name: v.name, color }))} unit={vars[0]?.unit ?? ""} range={history.range} height={200} />
        : <div class="plot waiting" />}
      <table class="legend">
        <tbody>
          {vars.map((v, i) => (
            <tr key={v.key}>
              <td><span class={"swatch series-" + (i % 6)} aria-hidden="true" /></td>
              <th scope="row">{v.name}</th>
              <td class="now"><Value v={v} poll={poll} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

export function TankBoard({ chart, poll }: BoardProps): JSX.Element {
  const level = memberVar(chart.data?.level);
  const volume = memberVar(chart.data?.volume);
  const most = limit(chart, "maxLevel");
  const capacity = limit(chart, "capacity");
  const share = shareOf(poll, level, most) ?? shareOf(poll, volume, capacity);
  return (
    <div class="tank">
      <svg viewBox="0 0 60 80" role="img" aria-label={share === null ? t("noData") : number(share * 100) + " %"}>
        <rect class="scale" x="4" y="2" width="52" height="76" />
        {share !== null && <rect class="fill" x="4" y={2 + 76 * (1 - share)} width="52" height={76 * share} />}
        {share !== null && <text x="30" y="44" text-anchor="middle">{number(Math.round(share * 100))} %</text>}
        {share === null && <text class="missing" x="30" y="44" text-anchor="middle">–</text>}
      </svg>
      <Rows vars={chartVars(chart)} poll={poll} />
    </div>
  );
}

function shareOf(poll: Poll, v: Var | null, most: number | null): number | null {
  const value = v && poll.values.get(v.key);
  return typeof value === "number" && most ? Math.max(0, Math.min(1, value / most)) : null;
}

export function BarBoard({ chart, poll }: BoardProps): JSX.Element {
  const vars = chartVars(chart);
  const numbers = vars.map((v) => poll.values.get(v.key)).filter((x) => typeof x === "number");
  const most = Math.max(0, ...numbers) || 1;
  return (
    <table class="plain bars">
      <tbody>
        {vars.map((v) => {
          const value = poll.values.get(v.key);
          return (
            <tr key={v.key}>
              <th scope="row">{v.name}</th>
              <td class="bar-cell">
                <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                  <rect class="scale" width="100" height="10" />
                  {typeof value === "number" && <rect class="fill" width={Math.max(0, (value / most) * 100)} height="10" />}
                </svg>
              </td>
              <td class="right"><Value v={v} poll={poll} /></td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
