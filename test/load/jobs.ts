// Work in processes of their own. A program serves jobs by name; the benchmark runs them one after the other and gets what they
// return, or the error that they threw. A program ends when the benchmark ends, however that ends.

import { type ChildProcess, fork } from "node:child_process";

// biome-ignore lint/suspicious/noExplicitAny: each job has parameters of its own
export type Jobs = Record<string, (params: any) => Promise<unknown>>;

interface Order {
  readonly number: number;
  readonly job: string;
  readonly params: unknown;
}

type Reply = { readonly number: number } & ({ readonly result: unknown } | { readonly error: unknown });

/** Called by the program. */
export function serveJobs(jobs: Jobs): void {
  process.on("SIGINT", () => {}); // Ctrl-C reaches the whole group; the benchmark decides who ends when
  process.on("disconnect", () => process.exit());
  process.on("message", async ({ number, job, params }: Order) => {
    const reply: Reply = await jobs[job]!(params).then(
      (result) => ({ number, result }),
      (error: unknown) => ({ number, error }),
    );
    process.send!(reply);
  });
}

export interface Program<J extends Jobs> {
  run<K extends keyof J & string>(job: K, params: Parameters<J[K]>[0]): Promise<Awaited<ReturnType<J[K]>>>;
  stop(): Promise<void>;
}

/** Starts the program at `url`; what it prints goes to stderr. */
export function startProgram<J extends Jobs>(url: URL): Program<J> {
  const child = fork(url, [], { serialization: "advanced", stdio: ["ignore", 2, 2, "ipc"] });
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  const ended = ending(child);
  let orders = 0;
  child.on("message", (reply: Reply) => {
    const order = waiting.get(reply.number);
    waiting.delete(reply.number);
    if ("error" in reply) order?.reject(reply.error);
    else order?.resolve(reply.result);
  });
  void ended.then((how) => {
    const error = new Error(`${url.pathname} ended with ${how} during a job`);
    for (const { reject } of waiting.values()) reject(error);
  });
  return {
    run(job, params) {
      const order = Promise.withResolvers<unknown>();
      orders += 1;
      waiting.set(orders, order);
      child.send({ number: orders, job, params } satisfies Order, (error) => error && order.reject(error));
      return order.promise as Promise<never>;
    },
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await ended;
    },
  };
}

export function ending(child: ChildProcess): Promise<number | NodeJS.Signals> {
  return new Promise((resolve, reject) => {
    child.once("exit", (code, signal) => resolve(signal ?? code!));
    child.once("error", reject);
  });
}
