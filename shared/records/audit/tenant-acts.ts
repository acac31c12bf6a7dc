/**
 * The acts that have no other record in the store: dead letters, credentials and policies. Each is recorded once,
 * even if a crash makes its service report it again.
 */
import { EXPORT_AGE_MAX_MS, type ExportSeal } from "../../protocol/audit-log.ts";
import { invalid } from "../../protocol/errors.ts";
import { DEFAULT_POLICIES, type Policies } from "../../protocol/policy.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { TenantAct, TenantAuditPage } from "../../protocol/tenant-audit.ts";
import type { Tx } from "../../store/store.ts";
import { requireAccessEnd } from "../access-log/export-end.ts";
import { decodeChecked, encodeChecked } from "../kv/codec.ts";
import { systemKeys, tenantKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";
import { occasionKey, rememberOccasion } from "../task/idempotency.ts";
import { compareEnds } from "./export-ends.ts";
import { policyVersion } from "./policy-version.ts";
import {
  type AuditedAct,
  actOf,
  appendTenantAudit,
  readTenantAudit,
  type TenantCaller,
} from "./tenant-audit.ts";

export interface ReportedAct {
  readonly action: TenantAct;
  readonly subject: AuditedAct["subject"];
  /** A text that identifies the act: the same for every report of it. */
  readonly occasion: string;
}

export interface PolicyReport {
  /** The tenant whose chain has the acts of the whole fleet. */
  readonly tenant: string;
  /** The service that applies the policies. */
  readonly service: string;
  readonly policies: Policies;
}

/** Before the first start with a policy file, or of a version with other rights, a fleet applies the built-in policies. */
const NO_POLICIES = policyVersion(DEFAULT_POLICIES);

/** The version of the policies and rights that were applied last. */
const policiesKey = () => systemKeys.meta("policies");

export class TenantActs {
  readonly #transactions: Transactions;
  readonly #now: () => number;

  constructor(parts: { readonly transactions: Transactions; readonly now: () => number }) {
    this.#transactions = parts.transactions;
    this.#now = parts.now;
  }

  /** One page of the tenant's own audit chain. */
  page(tenant: string, query: QueryParams<"tenant_audit">): Promise<TenantAuditPage> {
    return this.#transactions.read("tenant_audit", (reader) => readTenantAudit(reader, tenant, query));
  }

  /** Returns the number of acts that were not recorded before. */
  async record(by: TenantCaller, acts: readonly ReportedAct[]): Promise<number> {
    const nowMs = this.#now();
    const { value } = await this.#transactions.transact("record_acts", (tx) => record(tx, by, acts, nowMs));
    return value;
  }

  /**
   * Records that an export begins, or that a bundle of evidence leaves the fleet. The signature is that of the commit with the entry.
   * @throws FleetError INVALID: the ends of the tasks, or of the access log, are not those in the store.
   */
  async recordExport(by: TenantCaller, query: QueryParams<"export_record">): Promise<ExportSeal> {
    const { manifest, tasks, entries, phase } = query;
    const compared = await this.#compareExport(by.tenant, query);
    const act = actOf(by, "export", this.#now(), {
      ...{ manifest, tasks, entries, ...compared },
      ...(phase !== undefined && { phase }),
    });
    const { value: seq } = await this.#transactions.transact("export_record", async (tx) => {
      const head = await appendTenantAudit(tx, by.tenant, [act]);
      return head!.seq;
    });
    const page = { from_seq: seq, limit: 1, signatures: true };
    const { entries: written, signatures = [] } = await this.page(by.tenant, page);
    const found = signatures.find((one) => one.seq === seq);
    return { seq, entry: written[0]!.entry, signature: found?.envelope ?? null };
  }

  /** What the seal states of the contents, besides their numbers. */
  async #compareExport(
    tenant: string,
    { tasks, ends, access }: QueryParams<"export_record">,
  ): Promise<AuditedAct["subject"]> {
    if (ends !== undefined && ends.tasks.length !== tasks)
      throw invalid("ends.tasks", `those of all ${tasks} tasks`, ends.tasks.length);
    const exportedAt = ends?.exported_at ?? access?.exported_at;
    if (access !== undefined && access.exported_at !== exportedAt)
      throw invalid("access.exported_at", "that of the ends", access.exported_at);
    // What began later would be missing in a bundle that is sealed as whole now.
    if (exportedAt !== undefined && Date.parse(exportedAt) < this.#now() - EXPORT_AGE_MAX_MS)
      throw invalid("exported_at", "a time of the last 24 hours: export again, or fewer tasks", exportedAt);
    if (access !== undefined) await requireAccessEnd(this.#transactions, tenant, access);
    return {
      // The time of which both are. Without it, a bundle could have the ends of an earlier time than it says.
      ...(exportedAt !== undefined && { exported_at: exportedAt }),
      ...(ends !== undefined && (await compareEnds(this.#transactions, tenant, ends))),
      ...(access !== undefined && { access_seq: access.seq, access_hash: access.hash }),
    };
  }

  /** Records that a service applies other policies than the last service that started. True: it does. */
  async recordPolicies(report: PolicyReport): Promise<boolean> {
    const nowMs = this.#now();
    const { value } = await this.#transactions.transact("policy_change", (tx) =>
      recordPolicies(tx, report, nowMs),
    );
    return value;
  }
}

async function record(
  tx: Tx,
  by: TenantCaller,
  acts: readonly ReportedAct[],
  nowMs: number,
): Promise<number> {
  const { tenant } = by;
  const keys = tenantKeys(tenant);
  const recorded = await tx.getMany(acts.map(({ occasion }) => occasionKey(keys, occasion)));
  const fresh = acts.filter((_, i) => recorded[i] === undefined);
  await appendTenantAudit(
    tx,
    tenant,
    fresh.map(({ action, subject }) => actOf(by, action, nowMs, subject)),
  );
  for (const { occasion } of fresh) rememberOccasion(tx, keys, { tenant, occasion, nowMs });
  return fresh.length;
}

async function recordPolicies(tx: Tx, report: PolicyReport, nowMs: number): Promise<boolean> {
  const { tenant, service, policies } = report;
  const value = await tx.get(policiesKey());
  const before = value === undefined ? NO_POLICIES : decodeChecked<string>(value);
  const hash = policyVersion(policies);
  if (hash === before) return false;
  tx.set(policiesKey(), encodeChecked(hash));
  const at = new Date(nowMs).toISOString();
  const actor = { id: service, type: "service" } as const;
  await appendTenantAudit(tx, tenant, [
    { action: "policy_change", actor, at, subject: { from: before, to: hash } },
  ]);
  return true;
}
