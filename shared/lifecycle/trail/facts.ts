/** The facts of a transition, as its audit entry states them. */
import type { AuditOp } from "../transition.ts";

/** A transition as its audit entry states it. */
export interface AuditedChange {
  readonly op: AuditOp;
  readonly at: string;
  readonly actor: string;
  readonly checkpointId: string | null;
  readonly facts: Readonly<Record<string, unknown>>;
}

/** An entry lacks a fact: an earlier version wrote it. */
export class MissingFact extends Error {
  constructor(op: AuditOp, name: string) {
    super(`the audit entry of "${op}" has no ${name}`);
    this.name = "MissingFact";
  }
}

export function textFact(change: AuditedChange, name: string): string {
  const value = change.facts[name];
  if (typeof value !== "string") throw new MissingFact(change.op, name);
  return value;
}

export function textsFact(change: AuditedChange, name: string): readonly string[] {
  const value = change.facts[name];
  if (!Array.isArray(value)) throw new MissingFact(change.op, name);
  return value.map(String);
}

export function numberFact(change: AuditedChange, name: string): number {
  const value = change.facts[name];
  if (typeof value !== "number") throw new MissingFact(change.op, name);
  return value;
}

export function nullableFact(change: AuditedChange, name: string): string | null {
  const value = change.facts[name];
  if (value === undefined) throw new MissingFact(change.op, name);
  return value === null ? null : String(value);
}
