// What is loaded again and again, and the states of a page about releases.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { asFailure, Failure } from "../api";
import { clock } from "../format";
import { t } from "../i18n";
import { repeat } from "../poll";
import { useStore } from "../store";
import { Age, Failed, Forbidden, sentence, Skeleton } from "../ui";
import { giveToken, refused, releasesToken } from "./access";

/** How often pages about releases ask, in milliseconds. */
const every = 30_000;

export interface Watched<T> {
  data: T | null;
  at: number | null;
  failed: { since: number; error: Failure } | null;
  reload: () => void;
}

/** Loads at once and then at intervals while the page is seen. What was loaded stays when that fails. */
export function useWatch<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[]): Watched<T> {
  const token = useStore(releasesToken);
  const [state, setState] = useState<Omit<Watched<T>, "reload">>({ data: null, at: null, failed: null });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    setState((before) => (attempt > 0 ? before : { data: null, at: null, failed: null }));
    return repeat(async (signal) => {
      try {
        const data = await load(signal);
        if (!signal.aborted) setState({ data, at: Date.now(), failed: null });
      } catch (error) {
        if (signal.aborted) return;
        setState((before) => ({ ...before, failed: { since: before.failed?.since ?? Date.now(), error: asFailure(error) } }));
      }
    }, every);
  }, [...deps, token, attempt]);
  return { ...state, reload: () => setAttempt((n) => n + 1) };
}

interface WhenProps<T> {
  of: Watched<T>;
  children: (data: T) => ComponentChildren;
}

/** Draws what is watched, or why it can't be. */
export function Seen<T>({ of, children }: WhenProps<T>): JSX.Element {
  const error = of.failed?.error;
  if (error?.status === 401 || (error?.status === 429 && of.data === null)) return <TokenForm problem={error.status === 429 ? sentence(error) : ""} />;
  if (error?.status === 403) return <Forbidden error={error} />;
  if (of.data === null) return error ? <Failed error={error} retry={of.reload} /> : <Skeleton />;
  return (
    <>
      {of.failed
        ? <p class="freshness stale" role="alert"><span aria-hidden="true">⚠ </span>{t("staleSince", { time: clock(of.failed.since) })} {sentence(of.failed.error)} {of.at !== null && <>{t("staleHolds")} <Age at={of.at} /></>}</p>
        : <p class="freshness">{t("updated")} {of.at !== null && <Age at={of.at} />}</p>}
      {children(of.data)}
    </>
  );
}

/** Asks for the token of the configuration; problem says why the last one could not be tried. */
function TokenForm({ problem }: { problem: string }): JSX.Element {
  const wrong = useStore(refused);
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    giveToken(String(new FormData(e.currentTarget as HTMLFormElement).get("token")).trim());
  };
  return (
    <div class="login">
      <form onSubmit={submit}>
        <h2>{t("tokenTitle")}</h2>
        <p class="dim">{t("tokenText")} <code>server.console.token</code></p>
        {(problem || wrong) && <p class="problem" role="alert">{problem || t("tokenRefused")}</p>}
        <label>{t("token")} <input name="token" type="password" required autocomplete="off" data-search /></label>
        <button type="submit" class="primary">{t("show")}</button>
      </form>
    </div>
  );
}
