import { useEffect, useState } from "preact/hooks";
import { asFailure, series } from "../api";
import type { Poll } from "../poll";
import { repeat } from "../poll";
import { historyOf, historyQueries, type Var } from "../variables";
import { rangeAt, refresh, sampling, type Range, type Span } from "./periods";
import { join, type Table } from "./table";

/** The history of some variables. A table stays when a later request fails. */
export interface History extends Omit<Poll, "values"> {
  table: Table | null;
  range: Range;
}

/** Loads the history of variables, and again as often as there is more to see. */
export function useHistories(vars: Var[], span: Span, samplingPeriod?: { text: string; ms: number }): History {
  const [history, setHistory] = useState<History>(() => ({ table: null, range: rangeAt(span, Date.now()), at: null, failed: null }));
  const identity = JSON.stringify([vars.map((v) => v.key), span, samplingPeriod]);
  useEffect(() => {
    setHistory((before) => ({ ...before, table: null, range: rangeAt(span, Date.now()) }));
    if (vars.length === 0) return undefined;
    const ask = async (signal: AbortSignal) => {
      const range = rangeAt(span, Date.now());
      const every = samplingPeriod ?? sampling(range.stop - range.start);
      const asked = { start: Math.floor(range.start), stop: Math.ceil(range.stop) };
      try {
        const answer = await series(vars.flatMap((v) => historyQueries(v, every.text, asked)), signal);
        const table = join(vars.map((v) => historyOf(v, answer)), every.ms);
        setHistory({ table, range, at: Date.now(), failed: null });
      } catch (error) {
        if (signal.aborted) return;
        setHistory((before) => ({ ...before, failed: { since: before.failed?.since ?? Date.now(), error: asFailure(error) } }));
      }
    };
    return repeat(ask, refresh(span, Date.now()) ?? 2 ** 30); // a range of one's own does not change
  }, [identity]);
  return history;
}
