/** What an operation gets, and what it answers. */
import type { Members } from "../http/body.ts";
import type { FleetRequests } from "./fleet-requests.ts";
import type { IdempotencyKeys } from "./idempotency-key.ts";
import type { TaskLookup } from "./task-lookup.ts";

export interface ActContext {
  readonly fleet: FleetRequests;
  readonly headers: Headers;
  /** From the path and the query string. */
  readonly url: Members;
  /** From the body. */
  readonly body: Members;
  /** The body of an operation that takes bytes. */
  readonly content: ReadableStream<Uint8Array> | null;
  readonly tasks: TaskLookup;
  readonly keys: IdempotencyKeys;
}

export interface ActAnswer {
  readonly status: number;
  /** undefined: no body, unless there is `json`. */
  readonly body?: unknown;
  /** The body as JSON already. */
  readonly json?: Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}
