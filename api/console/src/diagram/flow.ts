import { isMissing } from "../format";

/** How a line's flow is drawn: seconds that a dash takes, and its direction. */
export interface Flow {
  seconds: number;
  reverse: boolean;
}

/**
 * The flow of a line with this value, or null for one that stands still or is not
 * known. A larger value is faster, by its order of magnitude, as values of
 * different units meet in one picture; a negative one flows backwards.
 */
export function flowOf(value: unknown, animated: boolean, inverted: boolean): Flow | null {
  if (!animated || isMissing(value) || Number(value) === 0) return null;
  const size = Math.log10(1 + Math.abs(Number(value)));
  return { seconds: Math.round(10 * Math.max(1, 4 / (1 + size))) / 10, reverse: Number(value) < 0 !== inverted };
}
