/** `fleet.admin.accessLog`: who has read content, and what was refused. For operators, reviewers, custodians and observers. */
import { CHAIN_START } from "../../integrity/chain.ts";
import {
  ACCESS_CHAIN,
  type AccessBlockPage,
  type AccessPage,
  type AccessSession,
} from "../../protocol/access-log.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { QueryInput } from "../../protocol/queries.ts";
import type { SigningKeyList } from "../../protocol/signing-keys.ts";
import type { TenantAuditPage } from "../../protocol/tenant-audit.ts";
import type { Camel } from "../case-convert.ts";
import type { TaskParts } from "../client/task.ts";
import { type TrailReport, TrailVerifier } from "../client/trail-verifier.ts";
import { KnownKeys } from "../request/known-keys.ts";
import type { CallOptions } from "../request/request.ts";
import { AccessClaims, type AccessProblem } from "./access-claims.ts";

/** `entries` of the chain are blocks. */
export interface AccessReport extends Omit<TrailReport, "problems"> {
  readonly problems: readonly (TrailReport["problems"][number] | AccessProblem)[];
  /** The reads and refusals in the blocks. */
  readonly records: number;
  /** Entries that processes could not write, as they state. */
  readonly lost: number;
  /** Processes that have not ended in good order: they run, or were killed after their newest block. */
  readonly open: readonly AccessSession[];
}

/** A verification that retention interrupts begins again. */
const ATTEMPTS_MAX = 3;

export class AccessLogAdmin {
  readonly #parts: TaskParts & { readonly tenant: string };

  constructor(parts: TaskParts & { readonly tenant: string }) {
    this.#parts = parts;
  }

  /** Entries, newest first, in pages. `taskId`: also of lists that have shown content of the task. */
  list(query: Camel<QueryInput<"access_log">> & CallOptions = {}): Promise<AccessPage> {
    return this.#parts.queries.send("access_log", query);
  }

  /** The blocks of the chain, oldest first, with what verifies them; in pages. */
  blocks(query: Camel<QueryInput<"access_blocks">> & CallOptions = {}): Promise<AccessBlockPage> {
    return this.#parts.queries.send("access_blocks", query);
  }

  /**
   * Recomputes the chain in this process, verifies its signatures, and compares it with what the chain of the tenant states of it. The server is
   * trusted for the list of keys only.
   */
  async verify(
    options: CallOptions & { readonly onProgress?: (blocks: number) => void } = {},
  ): Promise<AccessReport> {
    const { onProgress, ...call } = options;
    for (let attempts = 1; ; attempts += 1) {
      // First, so that the log has every block that it states.
      const stated = await this.#statements(call);
      const report = await this.#verifyFrom(stated, call, onProgress);
      if (report !== null || attempts === ATTEMPTS_MAX) return report ?? movedAway();
    }
  }

  /** null: retention has removed blocks meanwhile. */
  async #verifyFrom(
    stated: ReadonlyMap<number, string>,
    call: CallOptions,
    onProgress: ((blocks: number) => void) | undefined,
  ): Promise<AccessReport | null> {
    const { tenant, queries } = this.#parts;
    const limit = LIMITS.access_log_blocks_limit_max;
    const first = await this.blocks({ ...call, limit });
    const start = first.start ?? { seq: 0, hash: CHAIN_START };
    const keys = new KnownKeys(() => queries.send("signing_keys", call) as Promise<SigningKeyList>);
    const chain = new TrailVerifier({ tenant, task: ACCESS_CHAIN }, keys, start);
    const claims = new AccessClaims(start, stated);
    let isMoved = false;
    const report = await chain.verify(async (fromSeq) => {
      const page = fromSeq === start.seq + 1 ? first : await this.blocks({ ...call, fromSeq, limit });
      if ((page.start?.seq ?? 0) !== start.seq) isMoved = true;
      claims.add(page.entries);
      return page;
    }, onProgress);
    if (isMoved) return null;
    const { records, lost, problems } = claims.finish();
    return {
      ...report,
      ok: report.ok && problems.length === 0,
      problems: [...report.problems, ...problems],
      records,
      lost,
      open: first.sessions.filter(({ state }) => state === "open"),
    };
  }

  /** The hashes of blocks that the chain of the tenant states, by their numbers. */
  async #statements(call: CallOptions): Promise<ReadonlyMap<number, string>> {
    const stated = new Map<number, string>();
    for (let fromSeq = 1; ; ) {
      const page: TenantAuditPage = await this.#parts.queries.send("tenant_audit", {
        ...call,
        fromSeq,
        limit: LIMITS.audit_limit_max,
      });
      for (const { entry } of page.entries) {
        const { action, subject } = actIn(entry);
        if (action === "access_log" && subject !== undefined) stated.set(subject.block, subject.hash);
      }
      const last = page.entries.at(-1)?.seq;
      if (!page.more || last === undefined) return stated;
      fromSeq = last + 1;
    }
  }
}

interface StatingAct {
  readonly action?: string;
  readonly subject?: { readonly block: number; readonly hash: string };
}

/** An entry that cannot be parsed is a problem of the chain of the tenant. */
function actIn(entry: string): StatingAct {
  try {
    return (JSON.parse(entry) as StatingAct | null) ?? {};
  } catch {
    return {};
  }
}

function movedAway(): never {
  throw new FleetError("UNAVAILABLE", "retention removes the access log faster than it is read; try again");
}
