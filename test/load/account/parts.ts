// The parts of a commit's cost, and which files and threads belong to each: the one table of the account. What it does not name is "other".

export const PARTS = [
  "clients",
  "nats-server",
  "parsing and validation",
  "encoding",
  "hashing",
  "signing and ciphers",
  "rules of tasks",
  "records",
  "store layer",
  "commit threads",
  "bus connection",
  "requests, metrics and traces",
  "relay",
  "indexer",
  "log",
  "mirror",
  "other background jobs",
  "garbage collection, in the threads",
  "garbage collection and compilation, helper threads",
  "event loop and native code",
  "the profiler itself",
  "other",
] as const;
export type Part = (typeof PARTS)[number];

/** A sample belongs to one of these with all that it called, such as a hash for the log. */
const JOBS: ReadonlySet<Part> = new Set(["relay", "indexer", "log", "mirror", "other background jobs"]);

/** The beginning of a path, or a path and one of its functions after "#" → the part. The longest match counts. */
export const FILES: Readonly<Record<string, Part>> = {
  "shared/artifacts/": "requests, metrics and traces",
  "shared/bus/": "bus connection",
  "shared/integrity/": "parsing and validation",
  "shared/integrity/batch-signature.ts": "signing and ciphers",
  "shared/integrity/canonical.ts": "encoding",
  "shared/integrity/canonical.ts#sha256Hex": "hashing",
  "shared/integrity/chain.ts": "hashing",
  "shared/integrity/commit-signature.ts": "signing and ciphers",
  "shared/integrity/dsse.ts": "signing and ciphers",
  "shared/integrity/encryption/": "signing and ciphers",
  "shared/integrity/esign/": "signing and ciphers",
  "shared/integrity/merkle/": "hashing",
  "shared/integrity/msgpack-writer.ts": "encoding",
  "shared/integrity/offer-digest.ts": "hashing",
  "shared/integrity/request-hash.ts": "hashing",
  "shared/integrity/seal.ts": "hashing",
  "shared/integrity/timestamp/": "signing and ciphers",
  "shared/integrity/wire.ts#encodeBody": "encoding",
  "shared/lifecycle/": "rules of tasks",
  "shared/mirror/": "mirror",
  "shared/prompts/": "other background jobs",
  "shared/protocol/": "parsing and validation",
  "shared/records/": "records",
  "shared/records/audit-log/": "log",
  "shared/records/drafts/": "other background jobs",
  "shared/records/encryption/": "signing and ciphers",
  "shared/records/kv/codec.ts": "encoding",
  "shared/records/outbox/feed.ts#readFeedRows": "indexer",
  "shared/records/outbox/outbox.ts#clearPublished": "relay",
  "shared/records/outbox/outbox.ts#outboxEntry": "relay",
  "shared/records/outbox/outbox.ts#readOutbox": "relay",
  "shared/records/retention/": "other background jobs",
  "shared/records/scrub/": "other background jobs",
  "shared/records/search/": "indexer",
  "shared/records/signing/": "signing and ciphers",
  "shared/runtime/": "requests, metrics and traces",
  "shared/sdk/": "clients",
  "shared/service-host/": "requests, metrics and traces",
  "shared/store/": "store layer",
  "shared/transfer/": "other background jobs",
  "services/cli/": "clients",
  "services/coordinator/": "other background jobs",
  "services/gateway/": "requests, metrics and traces",
  "services/hook/": "clients",
  "services/mcp/": "clients",
  "services/reader/": "requests, metrics and traces",
  "services/reader/followers/index-leader.ts": "indexer",
  "services/reader/followers/mirror.ts": "mirror",
  "services/runner/": "clients",
  "services/signer/": "requests, metrics and traces",
  "services/standalone/": "other background jobs",
  "services/watchdog/": "other background jobs",
  "services/watchdog/audit-log/": "log",
  "services/writer/": "requests, metrics and traces",
  "services/writer/monitor/": "other background jobs",
  "services/writer/relay.ts": "relay",
  "services/writer/sweeps/": "other background jobs",
  "node_modules/@nats-io/": "bus connection",
  "node_modules/@opentelemetry/": "requests, metrics and traces",
  "node_modules/canonicalize/": "encoding",
  "node_modules/foundationdb/": "store layer",
  "node_modules/gpt-tokenizer/": "other background jobs",
  "node_modules/lmdb/": "store layer",
  "node_modules/msgpackr/": "parsing and validation",
  "node_modules/msgpackr/pack.js": "encoding",
  "node_modules/pino/": "requests, metrics and traces",
  "node_modules/prom-client/": "requests, metrics and traces",
  "node_modules/zod/": "parsing and validation",
  "node:internal/crypto/": "signing and ciphers",
  "node:internal/crypto/hash": "hashing",
  "node:internal/stream": "bus connection",
  "node:net": "bus connection",
  "node:tls": "bus connection",
};

/** The names of V8 for samples without a function. Null: the thread waited and used no processor. */
const STATES: Readonly<Record<string, Part | null>> = {
  "(idle)": null,
  "(garbage collector)": "garbage collection, in the threads",
  "(program)": "event loop and native code",
  "(root)": "event loop and native code",
};

/** A thread of the fleet's process by its name in the system. */
export type ThreadShare =
  /** Its whole time belongs to one part. */
  | { readonly part: Part }
  /**
   * Its time is divided by the samples of all profiles in which this file occurs. `within`: the part of everything but garbage collection.
   */
  | { readonly program: string; readonly within?: Part };

export const THREADS: Readonly<Record<string, ThreadShare>> = {
  MainThread: { program: "services/standalone/main.ts" },
  "fleet-services": { program: "services/standalone/thread-program.ts" },
  "lmdb-commit": { program: "shared/store/lmdb/worker.ts", within: "commit threads" },
  "file-mirror": { program: "shared/mirror/file-program.ts", within: "mirror" },
  prompts: { program: "services/coordinator/prompt-program.ts", within: "other background jobs" },
  V8Worker: { part: "garbage collection and compilation, helper threads" },
  "libuv-worker": { part: "event loop and native code" },
  DelayedTaskSche: { part: "event loop and native code" },
  "v8:ProfEvntProc": { part: "the profiler itself" },
  SignalInspector: { part: "event loop and native code" },
};

/** A function on the stack of a sample. */
export interface Frame {
  /** Relative to the project for its own files and its packages. Empty: native code. */
  readonly path: string;
  readonly name: string;
}

const PREFIXES = Object.keys(FILES).sort((a, b) => b.length - a.length);

function partOfFrame({ path, name }: Frame): Part | undefined {
  if (path === "") return undefined;
  const own = `${path}#${name}`;
  const found = PREFIXES.find((prefix) => (prefix.includes("#") ? prefix === own : path.startsWith(prefix)));
  return found === undefined ? undefined : FILES[found];
}

/**
 * The part of a stack, the innermost frame first. A job claims what it calls, from the outermost frame on; otherwise the innermost frame
 * counts that the table names, so that native code belongs to its caller. Null: the thread waited.
 */
export function partOf(stack: readonly Frame[]): Part | null {
  const innermost = stack[0];
  if (innermost === undefined) return "other";
  if (innermost.path === "" && Object.hasOwn(STATES, innermost.name)) return STATES[innermost.name]!;
  const parts = stack.map(partOfFrame);
  const job = parts.findLast((part) => part !== undefined && JOBS.has(part));
  const named = job ?? parts.find((part) => part !== undefined);
  if (named !== undefined) return named;
  // The engine of the event loop, such as timers and promises, has no frame of the project below it.
  return stack.every(({ path }) => path === "" || path.startsWith("node:"))
    ? "event loop and native code"
    : "other";
}
