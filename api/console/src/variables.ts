// Variables as the pages use them, wherever they were configured.

import type { BatchVariable, Chart, SeriesQuery, Variable, VarsTs, VarsTsA } from "./types.gen";

/** A variable that can be polled. Two with the same key have the same value. */
export interface Var {
  key: string;
  id: string | number;
  name: string;
  unit: string;
  type: string;
  calc: boolean;
  equation: string | null;
  varsTs: VarsTs;
}

type Loose = { [K in keyof Variable]?: Variable[K] | null } & { varsTs: VarsTs };

export function toVar(v: Loose): Var {
  const type = v.type && v.type !== "number" ? v.type : "last";
  const calc = v.calc ?? false;
  const equation = v.equation ?? null;
  const key = JSON.stringify([type, calc && equation, v.varsTs]);
  return { key, id: v.id ?? key, name: v.name ?? String(v.id ?? ""), unit: v.unit ?? "", type, calc, equation, varsTs: v.varsTs };
}

/** The items of a batch, and the key of each by the id that it has in the batch. */
export function batch(vars: Var[]): { items: BatchVariable[]; keys: Map<string, string> } {
  const items: BatchVariable[] = [];
  const keys = new Map<string, string>();
  const seen = new Set<string>();
  for (const v of vars) {
    if (seen.has(v.key)) continue;
    seen.add(v.key);
    let id = String(v.id);
    while (keys.has(id)) id += "'"; // another variable of this view has the same id
    keys.set(id, v.key);
    const { name, unit, type, calc, equation, varsTs } = v;
    items.push({ id, name, unit, type, calc, equation, varsTs });
  }
  return { items, keys };
}

const isObject = (v: unknown): v is Record<string, unknown> => typeof v === "object" && v !== null && !Array.isArray(v);

/** Form A of varsTs, or null for form B. */
export function formA(varsTs: VarsTs): VarsTsA | null {
  return typeof (varsTs as { measurement?: unknown }).measurement === "string" ? (varsTs as VarsTsA) : null;
}

/** The variable of a member of a chart's data, or null if it holds none. */
export function memberVar(member: unknown): Var | null {
  return isObject(member) && isObject(member.varsTs) ? toVar(member as unknown as Loose) : null;
}

/** The variable of an item of PumpControl. */
export function pumpVar(item: unknown): Var | null {
  if (!isObject(item) || !isObject(item.value)) return null;
  const { varId, name, unit, calc, equation, value } = item;
  return toVar({ id: varId, name, unit, calc, equation, varsTs: value } as unknown as Loose);
}

export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** All variables of a chart, at the places that its component has for them. */
export function chartVars(chart: Chart): Var[] {
  const data = chart.data ?? {};
  const found = chart.component === "PumpControl"
    ? [...list(data.initialPumps), ...list(data.initialStates)].map(pumpVar)
    : chart.component === "MultipleBooleanChart"
      ? list(data.items).map((item) => (isObject(item) ? memberVar(item.tsVar) : null))
      : Object.values(data).map(memberVar);
  return found.filter((v) => v !== null);
}

/** Reports whether the history of a variable can be asked for. */
export function hasHistory(v: Var): boolean {
  return formA(v.varsTs) !== null && !v.calc;
}

/**
 * The queries of a variable's history. Of calc_field and field, the first that has
 * points counts, as for current values.
 */
export function historyQueries(v: Var, samplingPeriod: string, range?: { start: number; stop: number }): SeriesQuery[] {
  const form = formA(v.varsTs);
  if (!form || v.calc) return [];
  const fields = [...new Set([form.calc_field, form.field].filter((f): f is string => Boolean(f)))];
  return fields.map((field, i) => ({ id: v.key + "#" + i, measurement: form.measurement, field, samplingPeriod, ...range }));
}

/** Picks a variable's points out of an answer to historyQueries. */
export function historyOf<T>(v: Var, answer: Record<string, T[]>): T[] {
  const first = answer[v.key + "#0"] ?? [];
  return first.length > 0 ? first : (answer[v.key + "#1"] ?? first);
}

/** Finds variables by words of their name, id, unit or measurement. */
export function search<T extends Var>(vars: T[], text: string): T[] {
  const words = fold(text).split(/\s+/).filter(Boolean);
  return vars.filter((v) => {
    const all = fold([v.id, v.name, v.unit, JSON.stringify(v.varsTs)].join(" "));
    return words.every((word) => all.includes(word));
  });
}

/** Lower case without accents. */
function fold(text: string): string {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}
