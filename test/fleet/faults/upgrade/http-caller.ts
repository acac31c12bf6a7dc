/**
 * A caller of the HTTP API, as one behind a load balancer: while the gateway does not accept its connection, ends it before an answer, or asks
 * for a repetition, the request is sent again with the same key. The final answer must be that of a sound fleet.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import { createWorkload } from "../../../load/workload.ts";
import { committedFacts } from "../agents/copies.ts";
import { type DoneLine, HistoryWriter, instant } from "../agents/history.ts";

export const HTTP_CALLER = "http-caller";
const PAUSE_MS = 40;
const RETRY_MS = 50;
/** The gateway starts again within this time, also on a busy machine. */
const DEADLINE_MS = 60_000;
const PER_TASK = 20;
/** UNAVAILABLE and TIMEOUT. */
const REPEATED: ReadonlySet<number> = new Set([503, 504]);

export interface HttpCaller {
  /** Resolves when the last request has its answer. */
  stop(): Promise<void>;
}

export function startHttpCaller(o: {
  readonly url: string;
  readonly key: string;
  readonly historyFolder: string;
  readonly seed: number;
}): HttpCaller {
  const history = new HistoryWriter(join(o.historyFolder, `${HTTP_CALLER}.jsonl`));
  const texts = createWorkload(o.seed);
  const stopping = new AbortController();
  const headers = { authorization: `Bearer ${o.key}`, "content-type": "application/json" };

  const send = async (path: string, init: RequestInit): Promise<Response> => {
    for (const end = performance.now() + DEADLINE_MS; ; ) {
      try {
        const answer = await fetch(`${o.url}/api/v1${path}`, init);
        // The whole answer, because the connection may end in it.
        const whole = new Response(await answer.text(), { status: answer.status });
        if (!REPEATED.has(answer.status) || performance.now() > end) return whole;
        await sleep(RETRY_MS);
      } catch (error) {
        if (performance.now() > end) throw error;
        await sleep(RETRY_MS);
      }
    }
  };
  const one = async (n: number): Promise<void> => {
    const task = `http-${Math.floor(n / PER_TASK)}`;
    const id = uuidv7();
    const call = `${HTTP_CALLER}/${n}`;
    const line = { call, op: "create", agent: HTTP_CALLER, task, command_id: id } as const;
    const { execution_state } = texts.checkpoint(1, n);
    const body = JSON.stringify({ task_id: task, agent_type: "implementation", execution_state });
    await history.append({ line: "call", at: instant(), ...line });
    const ending = await send("/checkpoints", {
      method: "POST",
      headers: { ...headers, "idempotency-key": id },
      body,
    })
      .then(endingOf)
      .catch((error: unknown): Ending => ({ outcome: "unknown", code: String(error) }));
    await history.append({ line: "done", call, at: instant(), ...ending });
    const read = await send(`/checkpoints/${id}`, { headers }).catch(() => undefined);
    if (read?.ok || ending.outcome !== "committed") return;
    const failed = { call: `${call}/read`, op: "get", agent: HTTP_CALLER, task, checkpoint_id: id } as const;
    await history.append({ line: "call", at: instant(), ...failed });
    const code = `HTTP ${read?.status}`;
    await history.append({ line: "done", call: failed.call, at: instant(), outcome: "unknown", code });
  };
  const running = (async () => {
    for (let n = 0; !stopping.signal.aborted; n += 1) {
      await one(n);
      await sleep(PAUSE_MS);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await running;
      await history.close();
    },
  };
}

type Ending = Omit<DoneLine, "line" | "call" | "at">;

async function endingOf(answer: Response): Promise<Ending> {
  const body = (await answer.json()) as Record<string, unknown>;
  if (answer.status === 202) return { outcome: "queued" };
  if (answer.ok) return { outcome: "committed", committed: committedFacts(body) };
  return { outcome: "unknown", code: `HTTP ${answer.status} ${JSON.stringify(body).slice(0, 200)}` };
}
