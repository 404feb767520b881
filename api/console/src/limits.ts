// What is abnormal: the limits that the charts of the tenant draw.

import type { Chart } from "./types.gen";
import { list, memberVar } from "./variables";

export type Level = "" | "abnormal" | "severe";

/** Reports what a value of a variable is, by the variable's key. */
export type Limits = Map<string, (value: number) => Level>;

/**
 * The level that a chart's colour stands for: red is severe, orange and yellow are
 * abnormal, all others, such as green for a pump that runs, are normal.
 */
export function colorLevel(color: unknown): Level {
  const hex = typeof color === "string" ? /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(color) : null;
  if (!hex) return "";
  const [r, g, b] = [1, 2, 3].map((i) => parseInt(hex[i]!, 16) / 255) as [number, number, number];
  const most = Math.max(r, g, b);
  const spread = most - Math.min(r, g, b);
  if (spread < 0.3 || most !== r) return "";
  const hue = (60 * (g - b)) / spread;
  if (hue < -20 || hue > 62) return "";
  return hue < 16 ? "severe" : "abnormal";
}

export interface Band {
  from: number;
  to: number;
  level: Level;
}

/** The bands of a gauge. */
export function bands(chart: Chart): Band[] {
  return list(chart.data?.bands).flatMap((band) => {
    const { from, to, color } = (band ?? {}) as Record<string, unknown>;
    return typeof from === "number" && typeof to === "number" ? [{ from, to, level: colorLevel(color) }] : [];
  });
}

export function bandLevel(all: Band[], value: number): Level {
  return all.find((band) => value >= band.from && value < band.to)?.level ?? "";
}

export function limitsOf(charts: Chart[]): Limits {
  const limits: Limits = new Map();
  for (const chart of charts) {
    const all = bands(chart);
    for (const member of all.length > 0 ? Object.values(chart.data ?? {}) : []) {
      const v = memberVar(member);
      if (v) limits.set(v.key, (value) => bandLevel(all, value));
    }
    if (chart.component !== "MultipleBooleanChart") continue;
    for (const item of list(chart.data?.items)) {
      const { tsVar, colorOn, colorOff } = (item ?? {}) as Record<string, unknown>;
      const v = memberVar(tsVar);
      if (v) limits.set(v.key, (value) => colorLevel(value === 1 ? colorOn : colorOff));
    }
  }
  return limits;
}
