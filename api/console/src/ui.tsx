// Parts that all pages share: states of loading, ages, dialogs.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { asFailure, type Failure } from "./api";
import { ago, clock, exact } from "./format";
import { t } from "./i18n";
import type { Poll } from "./poll";

/** What was loaded once, or why not. */
export interface Loaded<T> {
  data: T | null;
  error: Failure | null;
  reload: () => void;
}

/** Loads when the page opens, when deps change, and when reload is called. */
export function useLoad<T>(load: () => Promise<T>, deps: unknown[] = []): Loaded<T> {
  const [state, setState] = useState<{ data: T | null; error: Failure | null }>({ data: null, error: null });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    let current = true;
    setState((before) => ({ data: before.data, error: null }));
    load().then(
      (data) => current && setState({ data, error: null }),
      (error: unknown) => current && setState({ data: null, error: asFailure(error) }),
    );
    return () => {
      current = false;
    };
  }, [...deps, attempt]);
  return { ...state, reload: () => setAttempt((n) => n + 1) };
}

/** What a failure means, as a sentence. */
export function sentence(error: Failure): string {
  if (error.status === 0) return t("unreachable");
  if (error.status === 429) return t("throttled", { minutes: Math.max(1, Math.ceil(error.wait / 60)) });
  const { message } = error;
  return message ? message[0]!.toUpperCase() + message.slice(1) + (/[.!?…]$/.test(message) ? "" : ".") : t("failedStatus", { status: error.status });
}

interface WhenLoaded<T> {
  of: Loaded<T>;
  children: (data: T) => ComponentChildren;
}

/** Draws the state of what is loaded: a skeleton, the failure, or the content. */
export function When<T>({ of, children }: WhenLoaded<T>): JSX.Element {
  if (of.error?.status === 403) return <Forbidden error={of.error} />;
  if (of.error) return <Failed error={of.error} retry={of.reload} />;
  if (of.data === null) return <Skeleton />;
  return <>{children(of.data)}</>;
}

export function Skeleton(): JSX.Element {
  return (
    <div class="skeleton" role="status" aria-label={t("loading")}>
      {Array.from({ length: 8 }, (_, i) => <div key={i} />)}
    </div>
  );
}

export function Failed({ error, retry }: { error: Failure; retry: () => void }): JSX.Element {
  return (
    <div class="state failed" role="alert">
      <p><b>{t("failedTitle")}</b> {sentence(error)}</p>
      <button type="button" onClick={retry}>{t("retry")}</button>
    </div>
  );
}

export function Forbidden({ error }: { error: Failure }): JSX.Element {
  return <div class="state" role="alert"><p><b>{t("forbiddenTitle")}</b> {sentence(error)}</p></div>;
}

/** Words of the program itself, which speaks English; what stands between backticks is code. */
export function Said({ text }: { text: string }): JSX.Element {
  return <q class="said" lang="en">{text.split("`").map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part))}</q>;
}

export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <div class="state">{children}</div>;
}

/** Returns the time, anew at each interval while the page is seen. */
export function useNow(interval = 1000): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => !document.hidden && setNow(Date.now()), interval);
    return () => window.clearInterval(timer);
  }, [interval]);
  return now;
}

/** A time in words, with the exact one on hover and focus. */
export function Age({ at }: { at: number }): JSX.Element {
  const now = useNow();
  return <time class="age" tabIndex={0} title={exact(at)} dateTime={new Date(at).toISOString()}>{ago(at, now)}</time>;
}

/** The line that says how old the values of a view are, and whether polls fail. */
export function Freshness({ poll }: { poll: Poll }): JSX.Element {
  if (poll.failed) {
    const { since, error } = poll.failed;
    return (
      <p class="freshness stale" role="alert">
        <span aria-hidden="true">⚠ </span>
        {t("staleSince", { time: clock(since) })} {sentence(error)}
        {poll.at !== null && <> {t("staleHolds")} <Age at={poll.at} /></>}
      </p>
    );
  }
  if (poll.at === null) return <p class="freshness" />;
  return <p class="freshness">{t("updated")} <Age at={poll.at} /></p>;
}

interface DialogProps {
  title: string;
  close: () => void;
  wide?: boolean;
  children: ComponentChildren;
}

/** A modal dialog, which Escape closes. */
export function Dialog({ title, close, wide, children }: DialogProps): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => ref.current?.showModal(), []);
  return (
    <dialog ref={ref} class={wide ? "wide" : ""} aria-label={title} onClose={close}>
      <header>
        <h2>{title}</h2>
        <button type="button" class="quiet" onClick={() => ref.current?.close()} aria-label={t("close")}>✕</button>
      </header>
      {children}
    </dialog>
  );
}

/** Sends content to the user as a file. */
export function download(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
