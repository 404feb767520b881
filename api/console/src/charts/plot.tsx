import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { locale } from "../i18n";
import type { Range } from "./periods";
import type { Table } from "./table";

export interface Line {
  name: string;
  color: number; // index of the style
}

/** How series are told apart: colours of CSS, and dashes from the seventh on. */
export const styles = 6;

export function styleOf(element: Element, index: number): { stroke: string; dash: number[] } {
  const color = getComputedStyle(element).getPropertyValue("--series-" + (index % styles)).trim();
  return { stroke: color, dash: index >= styles ? [6, 4] : [] };
}

interface PlotProps {
  table: Table;
  lines: Line[];
  unit: string;
  range: Range;
  height: number;
  /** Whether the vertical axis begins at zero. */
  zero?: boolean;
  /** The row under the crosshair, or null. */
  hover?: (row: number | null) => void;
  zoom?: (range: Range | null) => void;
  created?: (plot: uPlot | null) => void;
}

/** Charts of one page share a crosshair by this name. */
const crosshair = "tsmon";

/** They share where the pointer is; a zoom is one chart's and goes by the address. */
const shared = (event: string) => event === "mousemove" || event === "mouseleave";

/** One chart with one axis. Dragging zooms, a double click goes back. */
export function Plot(props: PlotProps): JSX.Element {
  const ref = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const identity = JSON.stringify([props.lines, props.unit, locale(), document.documentElement.dataset.theme]);
  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const element = ref.current!;
    plot.current = new uPlot(options(element, latest), data(latest.current.table), element);
    latest.current.created?.(plot.current);
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: latest.current.height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      latest.current.created?.(null);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [identity]);
  const { start, stop } = props.range;
  useEffect(() => plot.current?.setData(data(props.table)), [props.table, start, stop]);
  return <div class="plot" ref={ref} style={{ minHeight: props.height + "px" }} onDblClick={() => props.zoom?.(null)} />;
}

function data(table: Table): uPlot.AlignedData {
  return [table.times, ...table.columns] as uPlot.AlignedData;
}

function options(element: HTMLElement, latest: { current: PlotProps }): uPlot.Options {
  const p = latest.current;
  const css = getComputedStyle(element);
  const axis = (): Partial<uPlot.Axis> => ({
    stroke: css.getPropertyValue("--ink-2").trim(), font: "12px system-ui, sans-serif",
    grid: { stroke: css.getPropertyValue("--rule").trim(), width: 1 }, ticks: { show: false },
  });
  const words = new Intl.NumberFormat(locale(), { maximumFractionDigits: 3 });
  return {
    width: element.clientWidth || 600, height: p.height, padding: [8, 36, 0, 0], legend: { show: false },
    cursor: { sync: { key: crosshair, setSeries: false, filters: { pub: shared, sub: () => true } }, drag: { x: true, y: false, setScale: false }, points: { size: 6 }, y: false },
    scales: {
      x: { time: true, range: () => [latest.current.range.start / 1000, latest.current.range.stop / 1000] },
      y: { range: (_, low, high) => (p.zero ? [0, Math.max(1, high) * 1.08] : spread(low, high)) },
    },
    axes: [
      { ...axis(), size: 28, space: 84, values: (_, times) => ticks(times) },
      { ...axis(), size: 56, values: (_, all) => all.map((v) => words.format(v)) },
    ],
    series: [{}, ...p.lines.map((line) => ({ label: line.name, width: 1.75, spanGaps: false, points: { show: (u: uPlot, i: number) => alone(u.data[i]!), size: 6 }, ...styleOf(element, line.color) }))],
    hooks: {
      setCursor: [(u) => latest.current.hover?.(u.cursor.idx ?? null)],
      setSelect: [(u) => {
        const [start, stop] = [u.select.left, u.select.left + u.select.width].map((x) => u.posToVal(x, "x") * 1000) as [number, number];
        if (u.select.width > 8) latest.current.zoom?.({ start, stop });
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
    },
  };
}

/** Whether a series has one value only, which no line shows. */
const alone = (values: uPlot.AlignedData[number]): boolean => (values as (number | null | undefined)[]).filter((v) => v != null).length === 1;

/** The range of the vertical axis: some room, and a flat line in the middle. */
function spread(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  const room = high > low ? (high - low) * 0.08 : Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

/** Labels of the time axis: hours, days where a day begins, and both if ticks are far apart. */
function ticks(times: number[]): string[] {
  const step = (times[1] ?? 0) - (times[0] ?? 0);
  const time = new Intl.DateTimeFormat(locale(), { hour: "numeric", minute: "2-digit", ...(step < 60 && { second: "2-digit" }) });
  const date = new Intl.DateTimeFormat(locale(), { day: "numeric", month: "short" });
  return times.map((s) => {
    const at = new Date(s * 1000);
    return step >= 86_000 || (at.getHours() === 0 && at.getMinutes() === 0) ? date.format(at) : time.format(at);
  });
}
