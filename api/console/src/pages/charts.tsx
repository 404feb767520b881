import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import * as api from "../api";
import { Plot, styles, type Line } from "../charts/plot";
import { useHistories, type History } from "../charts/history";
import { periodOf, periods, queryOf, rangeAt, spanOf, type Period, type Range, type Span } from "../charts/periods";
import { savePNG } from "../charts/png";
import { csv, lastBefore, type Table } from "../charts/table";
import { exact, number } from "../format";
import { t } from "../i18n";
import { useKeys } from "../keys";
import { Picker } from "../picker";
import { go, replace, type Route } from "../router";
import { hasHistory, toVar, type Var } from "../variables";
import { download, Empty, Freshness, Skeleton, useLoad, When } from "../ui";

export function Charts({ route }: { route: Route }): JSX.Element {
  const loaded = useLoad(async () => (await api.variables()).map(toVar));
  return (
    <>
      <h1 class="hidden">{t("charts")}</h1>
      <When of={loaded}>{(vars) => <Choice all={vars} query={route.query} />}</When>
    </>
  );
}

/** How many variables one page shows: six colours, each plain and dashed. */
const most = 2 * styles;

function Choice({ all, query }: { all: Var[]; query: URLSearchParams }): JSX.Element {
  const ids = (query.get("v") ?? "").split(",").filter(Boolean);
  const chosen = useMemo(() => ids.flatMap((id) => all.find((v) => String(v.id) === id) ?? []), [ids.join(), all]);
  const span = spanOf(query);
  const show = (vars: Var[], next: Span, put = replace) => {
    const v = vars.map((x) => String(x.id)).join(",");
    put("charts", { ...(v && { v }), p: periodOf(query), ...queryOf(next) });
  };
  const zoom = (range: Range | null) => show(chosen, range ? { range } : { period: periodOf(query) }, go);
  const usable = all.filter((v) => hasHistory(v) && !chosen.includes(v));
  return (
    <>
      <div class="tools">
        {chosen.length < most && <Picker label={t("addVariable")} from={usable} pick={(v) => show([...chosen, v], span)} searchKey />}
        <Periods span={span} choose={(next) => show(chosen, next)} />
      </div>
      {chosen.length === 0
        ? <Empty><p>{t("chooseVariables")}</p></Empty>
        : <Shown vars={chosen} span={span} zoom={zoom} remove={(v) => show(chosen.filter((x) => x !== v), span)} />}
    </>
  );
}

function Periods({ span, choose }: { span: Span; choose: (span: Span) => void }): JSX.Element {
  const [own, setOwn] = useState(false);
  const names = Object.keys(periods) as Period[];
  useKeys({
    ...Object.fromEntries(names.map((period, i) => [String(i + 1), () => choose({ period })])),
    "5": () => setOwn(true),
  });
  const current = "period" in span ? span.period : "own";
  return (
    <div class="periods" role="group" aria-label={t("period")}>
      {names.map((period, i) => (
        <button
          type="button" key={period} aria-pressed={current === period} title={t("keyIs", { key: i + 1 })}
          onClick={() => { setOwn(false); choose({ period }); }}
        >{period.replace("h", " h").replace("d", " d")}</button>
      ))}
      <button type="button" aria-pressed={current === "own"} aria-expanded={own} title={t("keyIs", { key: 5 })} onClick={() => setOwn(!own)}>
        {t("ownPeriod")}
      </button>
      {own && <OwnPeriod span={span} choose={(range) => { setOwn(false); choose({ range }); }} />}
    </div>
  );
}

function OwnPeriod({ span, choose }: { span: Span; choose: (range: Range) => void }): JSX.Element {
  const range = rangeAt(span, Date.now());
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    // Which of the two comes first is plain.
    const [start, stop] = ["from", "to"].map((name) => new Date(String(form.get(name))).getTime()).sort((a, b) => a - b) as [number, number];
    if (stop > start) choose({ start, stop });
  };
  return (
    <form class="own" onSubmit={submit}>
      <label>{t("from")} <input type="datetime-local" name="from" required defaultValue={local(range.start)} /></label>
      <label>{t("to")} <input type="datetime-local" name="to" required defaultValue={local(range.stop)} /></label>
      <button type="submit">{t("show")}</button>
    </form>
  );
}

/** A time as an input of the type datetime-local takes it. */
function local(ms: number): string {
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

interface ShownProps {
  vars: Var[];
  span: Span;
  zoom: (range: Range | null) => void;
  remove: (v: Var) => void;
}

function Shown({ vars, span, zoom, remove }: ShownProps): JSX.Element {
  const history = useHistories(vars, span);
  const plots = useRef(new Map<string, uPlot>());
  const { table } = history;
  const names = vars.map((v) => v.name + (v.unit && ` (${v.unit})`));
  return (
    <>
      <div class="tools">
        <Freshness poll={{ ...history, values: new Map() }} />
        <div class="exports">
          <button type="button" disabled={!table} onClick={() => table && saveCSV(table, names)}>CSV</button>
          <button type="button" disabled={!table} onClick={() => void savePNG([...plots.current.values()], vars)}>PNG</button>
        </div>
      </div>
      {table ? <Panels vars={vars} history={history} table={table} plots={plots.current} zoom={zoom} remove={remove} />
        : !history.failed && <Skeleton />}
    </>
  );
}

function saveCSV(table: Table, names: string[]): void {
  download("tsmon.csv", new Blob(["\ufeff" + csv(table, names)], { type: "text/csv" }));
}

interface PanelsProps extends Omit<ShownProps, "span"> {
  history: History;
  table: Table;
  plots: Map<string, uPlot>;
}

/** A chart for each unit, with one crosshair, and the values under it. */
function Panels({ vars, history, table, plots, zoom, remove }: PanelsProps): JSX.Element {
  const [row, setRow] = useState<number | null>(null);
  useEffect(() => setRow(null), [table]);
  const units = [...new Set(vars.map((v) => v.unit))];
  const end = table.times.length - 1;
  return (
    <>
      {units.map((unit) => (
        <section class="panel" key={unit} aria-label={unit || t("charts")}>
          <h2 class="unit">{unit || t("noUnit")}</h2>
          <UnitPlot {...{ vars, unit, history, table, plots, zoom }} hover={setRow} count={units.length} />
          <table class="legend">
            <tbody>
              {vars.map((v, i) => v.unit === unit && (
                <LegendRow key={v.key} v={v} index={i} column={table.columns[i] ?? []} times={table.times} row={row ?? end} remove={remove} />
              ))}
            </tbody>
          </table>
        </section>
      ))}
      <p class="dim" aria-live="off">{row === null ? t("chartHint") : exact((table.times[row] ?? 0) * 1000)}</p>
    </>
  );
}

interface UnitPlotProps extends Omit<PanelsProps, "remove"> {
  unit: string;
  count: number;
  hover: (row: number | null) => void;
}

function UnitPlot({ vars, unit, history, table, plots, zoom, hover, count }: UnitPlotProps): JSX.Element {
  const indexes = vars.map((_, i) => i).filter((i) => vars[i]!.unit === unit);
  const lines: Line[] = indexes.map((i) => ({ name: vars[i]!.name, color: i }));
  const own = useMemo(() => ({ times: table.times, columns: indexes.map((i) => table.columns[i] ?? []) }), [table, indexes.join()]);
  return (
    <Plot
      table={own} lines={lines} unit={unit} range={history.range} height={count > 2 ? 180 : count === 2 ? 240 : 380}
      hover={hover} zoom={zoom} created={(plot) => (plot ? plots.set(unit, plot) : plots.delete(unit))}
    />
  );
}

interface LegendRowProps {
  v: Var;
  index: number;
  column: Table["columns"][number];
  times: number[];
  row: number;
  remove: (v: Var) => void;
}

function LegendRow({ v, index, column, times, row, remove }: LegendRowProps): JSX.Element {
  const at = lastBefore(column, row);
  const near = at >= 0 && (times[row]! - times[at]!) < 3600;
  const shown = at >= 0 && near ? number(column[at] as number) + " " + v.unit : t("noData");
  const all = column.filter((x) => typeof x === "number");
  return (
    <tr>
      <td><span class={`swatch series-${index % styles} ${index >= styles ? "dashed" : ""}`} aria-hidden="true" /></td>
      <th scope="row">{v.name}</th>
      <td class="now">{shown}</td>
      <td class="dim">{all.length > 0 && <>{t("least")} {number(Math.min(...all))} · {t("greatest")} {number(Math.max(...all))}</>}</td>
      <td><button type="button" class="quiet" aria-label={t("remove", { name: v.name })} onClick={() => remove(v)}>✕</button></td>
    </tr>
  );
}
