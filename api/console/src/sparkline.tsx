import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { series } from "./api";
import { number } from "./format";
import { t } from "./i18n";
import { hasHistory, historyOf, historyQueries, type Var } from "./variables";

/** One point of a history: time and value. */
export type Point = [ms: number, value: number];

const windowLength = 30 * 60_000;
const day = 24 * 3_600_000;

/** How long a history is shown before it is asked for again. */
const freshFor = 5 * 60_000;

/** Histories of the last 24 hours, asked for together when they come into view. */
class Histories {
  private known = new Map<string, { at: number; points: Promise<Point[]> }>();
  private waiting: { v: Var; resolve: (points: Point[]) => void; reject: (error: unknown) => void }[] = [];

  get(v: Var): Promise<Point[]> {
    const found = this.known.get(v.key);
    if (found && Date.now() - found.at < freshFor) return found.points;
    const points = new Promise<Point[]>((resolve, reject) => {
      if (this.waiting.push({ v, resolve, reject }) === 1) window.setTimeout(() => void this.ask(), 50);
    });
    this.known.set(v.key, { at: Date.now(), points });
    points.catch(() => this.known.delete(v.key));
    return points;
  }

  private async ask(): Promise<void> {
    const asked = this.waiting;
    this.waiting = [];
    try {
      const answer = await series(asked.flatMap(({ v }) => historyQueries(v, "30m")));
      for (const { v, resolve } of asked) resolve(historyOf(v, answer).map((p): Point => [p.ts, p.value]));
    } catch (error) {
      for (const { reject } of asked) reject(error);
    }
  }
}

const histories = new Histories();

/** When the variable was last measured, if that is longer ago than it should be. */
export function lateSince(points: Point[], now: number): number | null {
  const last = points.at(-1);
  return last && now - last[0] > 2 * windowLength + freshFor ? last[0] + windowLength : null;
}

/** The path of a sparkline in a box, with gaps where windows have no points. */
export function path(points: Point[], now: number, width: number, height: number): string {
  const [low, high] = rangeOf(points);
  const scale = high > low ? (height - 4) / (high - low) : 0;
  let before = -Infinity;
  return points.map(([ms, value]) => {
    const x = width - ((now - ms) / day) * width;
    const y = scale ? height - 2 - (value - low) * scale : height / 2;
    const move = ms - before > 1.5 * windowLength ? "M" : "L";
    before = ms;
    return move + x.toFixed(1) + " " + y.toFixed(1);
  }).join("");
}

export function rangeOf(points: Point[]): [low: number, high: number] {
  let low = Infinity;
  let high = -Infinity;
  for (const [, value] of points) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low, high];
}

/** Follows the history of a variable while the element is in view. */
export function useHistory(v: Var): { ref: { current: HTMLElement | null }; points: Point[] | null } {
  const ref = useRef<HTMLElement>(null);
  const [points, setPoints] = useState<Point[] | null>(null);
  useEffect(() => {
    const element = ref.current;
    if (!element || !hasHistory(v)) return undefined;
    let seen = false;
    const load = () => {
      if (seen && !document.hidden) histories.get(v).then(setPoints, () => undefined); // polls say what fails
    };
    const observer = new IntersectionObserver((entries) => {
      seen = entries.at(-1)?.isIntersecting ?? false;
      load();
    }, { rootMargin: "200px" });
    observer.observe(element);
    const timer = window.setInterval(load, freshFor);
    return () => {
      observer.disconnect();
      window.clearInterval(timer);
    };
  }, [v.key]);
  return { ref, points };
}

export function Sparkline({ points, name }: { points: Point[]; name: string }): JSX.Element {
  const [low, high] = rangeOf(points);
  const label = t("sparkline", { name, low: number(low), high: number(high) });
  return (
    <svg class="sparkline" viewBox="0 0 160 36" preserveAspectRatio="none" role="img" aria-label={label}>
      <path d={path(points, Date.now(), 160, 36)} vector-effect="non-scaling-stroke" />
    </svg>
  );
}
