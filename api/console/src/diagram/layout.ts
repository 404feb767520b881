// Finds places for the values of a diagram, beside what they belong to.

import { boxOf, isShown, pointsOf, type Box, type Doc, type Kind } from "./model";

const meets = (a: Box, b: Box) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

export const boxAt = (left: number, top: number, width: number, height: number): Box =>
  ({ left, top, right: left + width, bottom: top + height });

/** What the objects of a diagram take up. */
export function obstacles(doc: Doc): Taken {
  const boxes = (kind: Kind) => doc[kind].filter(isShown).map((item) => boxOf(kind, item));
  const lines = (["lines", "polylines"] as const).flatMap((kind) => doc[kind].filter(isShown).flatMap((item) => {
    const points = pointsOf(kind, item);
    const closed = item.closed && points[0] ? [...points, points[0]] : points;
    return closed.slice(1).flatMap((p, i) => segment(closed[i]!, p));
  }));
  return { lines, others: [...boxes("images"), ...boxes("texts")] };
}

interface P {
  left: number;
  top: number;
}

/** A line as a few boxes, so that a slanting one does not take up all around it. */
function segment(a: P, b: P): Box[] {
  const straight = a.left === b.left || a.top === b.top;
  const pieces = straight ? 1 : 8;
  return Array.from({ length: pieces }, (_, i) => {
    const at = (share: number) => ({ left: a.left + (b.left - a.left) * share, top: a.top + (b.top - a.top) * share });
    const [p, q] = [at(i / pieces), at((i + 1) / pieces)];
    return {
      left: Math.min(p.left, q.left) - 4, top: Math.min(p.top, q.top) - 4,
      right: Math.max(p.left, q.left) + 4, bottom: Math.max(p.top, q.top) + 4,
    };
  });
}

const gap = 3;

/** How far a box stays from what it does not belong to. */
const distance = 9;

/** What boxes of values keep clear of. */
export interface Taken {
  /** Lines, which a box may touch but not cover. */
  lines: Box[];
  /** Pictures, texts and other values, near which a box would seem to be theirs. */
  others: Box[];
}

/**
 * The place for a box of values beside its owner: below, above or at a side, where it
 * covers nothing and can't be taken for the values of something else. If there is
 * none it lies over the lower end of the owner.
 */
export function beside(owner: Box, width: number, height: number, taken: Taken, canvas: { width: number; height: number }): Box {
  const [centre, middle] = [(owner.left + owner.right - width) / 2, (owner.top + owner.bottom) / 2];
  const heights = [owner.top, middle - height - distance, middle + distance, owner.bottom - height];
  const candidates = [
    boxAt(centre, owner.bottom + gap, width, height), boxAt(centre, owner.top - gap - height, width, height),
    ...heights.map((top) => boxAt(owner.right + gap, top, width, height)),
    ...heights.map((top) => boxAt(owner.left - gap - width, top, width, height)),
  ];
  const fits = (b: Box) =>
    b.left >= 0 && b.top >= 0 && b.right <= canvas.width && b.bottom <= canvas.height && !taken.lines.some((line) => meets(b, line)) &&
    !taken.others.some((other) => meets(wider(b), other) && !same(other, owner));
  return candidates.find(fits) ?? boxAt(centre, owner.bottom - height, width, height);
}

/** The first box that covers nothing but lines, else the first. */
export function free(taken: Taken, candidates: [Box, ...Box[]]): Box {
  return candidates.find((b) => !taken.others.some((other) => meets(b, other))) ?? candidates[0];
}

const wider = (b: Box): Box => ({ left: b.left - distance, top: b.top - distance, right: b.right + distance, bottom: b.bottom + distance });

const same = (a: Box, b: Box) => a.left === b.left && a.top === b.top && a.right === b.right && a.bottom === b.bottom;
