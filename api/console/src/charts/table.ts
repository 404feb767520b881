// Points of several series in one table: what charts draw and CSV files hold.

export type Cell = number | null | undefined;

/** Times in seconds, and a column for each series. */
export interface Table {
  times: number[];
  columns: Cell[][];
}

interface P {
  ts: number;
  value: number;
}

/**
 * Joins series by their times. A series that has no point at a time is undefined
 * there. It is null where values are missing for longer than the series' own usual
 * distance, which a chart leaves open: a gap.
 */
export function join(series: P[][], window: number): Table {
  const rows = new Map<number, Cell[]>();
  const put = (ts: number, column: number, value: Cell) => {
    let row = rows.get(ts);
    if (!row) rows.set(ts, (row = new Array<Cell>(series.length).fill(undefined)));
    if (row[column] === undefined) row[column] = value;
  };
  series.forEach((points, column) => {
    const longest = 2.5 * Math.max(window, usual(points));
    points.forEach((p, i) => {
      put(p.ts, column, p.value);
      const next = points[i + 1];
      if (next && next.ts - p.ts > longest) put(p.ts + window, column, null);
    });
  });
  const times = [...rows.keys()].sort((a, b) => a - b);
  const columns = series.map((_, column) => times.map((ts) => rows.get(ts)![column]));
  return { times: times.map((ts) => ts / 1000), columns };
}

/** The median distance between points. */
function usual(points: P[]): number {
  const distances = points.slice(1).map((p, i) => p.ts - points[i]!.ts).sort((a, b) => a - b);
  return distances[Math.floor(distances.length / 2)] ?? 0;
}

/** Index of the last value of a column at or before a row, or -1. */
export function lastBefore(column: Cell[], row: number): number {
  for (let i = Math.min(row, column.length - 1); i >= 0; i--) if (typeof column[i] === "number") return i;
  return -1;
}

/** The table as CSV with times in ISO 8601; a missing value is an empty field. */
export function csv(table: Table, names: string[]): string {
  const lines = [["time", ...names].map(field).join(",")];
  table.times.forEach((time, row) => {
    if (table.columns.every((column) => column[row] == null)) return;
    lines.push([new Date(time * 1000).toISOString(), ...table.columns.map((column) => column[row] ?? "")].join(","));
  });
  return lines.join("\r\n") + "\r\n";
}

/** A field that no spreadsheet takes for a formula. */
function field(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? "'" + text : text;
  return /[",\r\n]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
}
