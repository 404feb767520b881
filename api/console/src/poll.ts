import { useEffect, useState } from "preact/hooks";
import { asFailure, type Failure, values as askValues } from "./api";
import { batch, type Var } from "./variables";

/** How often each view asks, in milliseconds, as spec.md has it. */
export const every = { dashboard: 30_000, map: 15_000, chart: 15_000 };

/** Current values by the key of their variable. */
export interface Poll {
  values: Map<string, number | null>;
  /** When the values came; null before the first answer. */
  at: number | null;
  /** Since when polls fail, and what the last one said. The values stay. */
  failed: { since: number; error: Failure } | null;
}

const nothing: Poll = { values: new Map(), at: null, failed: null };

/**
 * Runs a task at once and then at an interval, but not while the page is hidden; a
 * page that is shown again runs it as soon as it is due. Returns what ends it.
 */
export function repeat(task: (signal: AbortSignal) => Promise<void>, interval: number): () => void {
  const ending = new AbortController();
  let timer = 0;
  let due = 0;
  const run = async () => {
    window.clearTimeout(timer);
    if (document.hidden || ending.signal.aborted) return;
    due = Infinity; // none begins while one runs
    await task(ending.signal);
    due = Date.now() + interval;
    if (!ending.signal.aborted && !document.hidden) timer = window.setTimeout(run, interval);
  };
  const shown = () => {
    if (document.hidden || due === Infinity) return;
    window.clearTimeout(timer);
    timer = window.setTimeout(run, Math.max(0, due - Date.now()));
  };
  document.addEventListener("visibilitychange", shown);
  void run();
  return () => {
    ending.abort();
    window.clearTimeout(timer);
    document.removeEventListener("visibilitychange", shown);
  };
}

/** Polls variables with one batch at a time. */
export function usePoll(vars: Var[], interval: number): Poll {
  const [poll, setPoll] = useState(nothing);
  const wanted = batch(vars);
  const identity = [...wanted.keys.values()].join("\n");
  useEffect(() => {
    if (wanted.items.length === 0) return undefined;
    return repeat(async (signal) => {
      try {
        const answer = await askValues(wanted.items, signal);
        const values = new Map([...wanted.keys].map(([id, key]) => [key, answer[id] ?? null] as const));
        setPoll({ values, at: Date.now(), failed: null });
      } catch (error) {
        if (signal.aborted) return;
        setPoll((before) => ({ ...before, failed: { since: before.failed?.since ?? Date.now(), error: asFailure(error) } }));
      }
    }, interval);
  }, [identity, interval]);
  return poll;
}
