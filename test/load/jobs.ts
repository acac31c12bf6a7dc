// Jobs in separate processes. A program serves jobs by name. The benchmark runs them one after the other and receives their results
// or errors. A program ends when the benchmark ends, for any reason.

import { type ChildProcess, fork } from "node:child_process";

// biome-ignore lint/suspicious/noExplicitAny: each job has its own parameters
export type Jobs = Record<string, (params: any) => Promise<unknown>>;

interface JobRequest {
  readonly number: number;
  readonly job: string;
  readonly params: unknown;
}

type JobReply = { readonly number: number } & ({ readonly result: unknown } | { readonly error: unknown });

/** Serves jobs in the process of a program. */
export function serveJobs(jobs: Jobs): void {
  process.on("SIGINT", () => {}); // Ctrl-C reaches the whole group; the benchmark ends its programs in order
  process.on("disconnect", () => process.exit());
  process.on("message", async ({ number, job, params }: JobRequest) => {
    const reply: JobReply = await jobs[job]!(params).then(
      (result) => ({ number, result }),
      (error: unknown) => ({ number, error }),
    );
    process.send!(reply);
  });
}

export interface Program<J extends Jobs> {
  readonly pid: number;
  run<K extends keyof J & string>(job: K, params: Parameters<J[K]>[0]): Promise<Awaited<ReturnType<J[K]>>>;
  stop(): Promise<void>;
}

/** Starts the program at `url`; its output goes to stderr. */
export function startProgram<J extends Jobs>(url: URL): Program<J> {
  const child = fork(url, [], { serialization: "advanced", stdio: ["ignore", 2, 2, "ipc"] });
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  const ended = exitOf(child);
  let requests = 0;
  child.on("message", (reply: JobReply) => {
    const request = waiting.get(reply.number);
    waiting.delete(reply.number);
    if ("error" in reply) request?.reject(reply.error);
    else request?.resolve(reply.result);
  });
  void ended.then((exit) => {
    const error = new Error(`${url.pathname} ended with ${exit} during a job`);
    for (const { reject } of waiting.values()) reject(error);
  });
  return {
    pid: child.pid!,
    run(job, params) {
      const request = Promise.withResolvers<unknown>();
      requests += 1;
      waiting.set(requests, request);
      const message: JobRequest = { number: requests, job, params };
      child.send(message, (error) => error && request.reject(error));
      return request.promise as Promise<never>;
    },
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await ended;
    },
  };
}

/** Resolves with the exit code or the signal with which a process ends. */
export function exitOf(child: ChildProcess): Promise<number | NodeJS.Signals> {
  return new Promise((resolve, reject) => {
    child.once("exit", (code, signal) => resolve(signal ?? code!));
    child.once("error", reject);
  });
}
