import { useEffect, useState } from "preact/hooks";

/** A value that components follow. */
export interface Store<T> {
  get(): T;
  set(value: T): void;
  subscribe(listener: () => void): () => void;
}

export function store<T>(initial: T): Store<T> {
  let value = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Returns the store's value and renders again when it changes. */
export function useStore<T>(s: Store<T>): T {
  const [, render] = useState(0);
  useEffect(() => {
    render((n) => n + 1); // it may have changed between the render and now
    return s.subscribe(() => render((n) => n + 1));
  }, [s]);
  return s.get();
}

/** Reads a setting that the browser keeps; storage may be switched off. */
export function kept(name: string): string | null {
  try {
    return localStorage.getItem("tsmon." + name);
  } catch {
    return null;
  }
}

export function keep(name: string, value: string): void {
  try {
    localStorage.setItem("tsmon." + name, value);
  } catch {
    // Without storage the setting lasts as long as the page.
  }
}
