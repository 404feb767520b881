// Finds places for the values of a diagram, beside what they belong to.

import { boxOf, isShown, kinds, pointsOf, type Box, type Doc } from "./model";

const meets = (a: Box, b: Box) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

export const boxAt = (left: number, top: number, width: number, height: number): Box =>
  ({ left, top, right: left + width, bottom: top + height });

/** What values should not cover: pictures, texts and lines. */
export function obstacles(doc: Doc): Box[] {
  return kinds.flatMap((kind) => doc[kind].filter(isShown).flatMap((item) => {
    if (kind !== "lines" && kind !== "polylines") return [boxOf(kind, item)];
    const points = pointsOf(kind, item);
    return points.slice(1).flatMap((p, i) => segment(points[i]!, p));
  }));
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

/**
 * The place for a box of values beside its owner that meets the fewest others: below,
 * above, at the sides, and else over the lower end of the owner.
 */
export function beside(owner: Box, width: number, height: number, taken: Box[], canvas: { width: number; height: number }): Box {
  const middle = (owner.left + owner.right - width) / 2;
  const [right, left] = [owner.right + gap, owner.left - gap - width];
  const inside = boxAt(middle, owner.bottom - height, width, height);
  const candidates = [
    boxAt(middle, owner.bottom + gap, width, height), boxAt(middle, owner.top - gap - height, width, height),
    boxAt(right, owner.top, width, height), boxAt(right, owner.bottom - height, width, height),
    boxAt(left, owner.top, width, height), boxAt(left, owner.bottom - height, width, height),
  ];
  const fits = (b: Box) => b.left >= 0 && b.top >= 0 && b.right <= canvas.width && b.bottom <= canvas.height;
  return candidates.find((b) => fits(b) && !taken.some((other) => meets(b, other))) ?? inside;
}
