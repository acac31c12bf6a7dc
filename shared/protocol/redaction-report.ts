/** The report of redaction: where secrets stood and which rule found them; never a value, nor a part of one. */
import { z } from "zod";
import { LIMITS } from "./limits.ts";
import { SHAPE_NAMES } from "./redaction.ts";

/** The rules of `secretlint` that redaction runs, without those that Fleet's own shapes replace. */
export const SCANNER_RULES = [
  "aws",
  "gcp",
  "privatekey",
  "npm",
  "basicauth",
  "slack",
  "sendgrid",
  "shopify",
  "github",
  "openai",
  "linear",
  "1password",
] as const;

/** Every rule, as replacements, reports and metrics name it. */
export const REDACTION_RULES: readonly string[] = [
  "known secret",
  "member name",
  ...SHAPE_NAMES,
  ...SCANNER_RULES.map((name) => `secretlint ${name}`),
];

/** `path`: a JSON pointer into the command; a longer one than 500 characters is cut. */
export const redactedPartSchema = z.object({ path: z.string(), rule: z.string() }).readonly();
export type RedactedPart = z.output<typeof redactedPartSchema>;

/** The secrets that the SDK or the gateway removed from a command. The first ones only, if they are many. */
export const redactedSchema = z.array(redactedPartSchema).readonly();

/** How many secrets each rule has removed from a command, for the metrics of the fleet. A newer sender may have further rules. */
export const redactionsSchema = z
  .record(z.string().max(LIMITS.id_chars_max), z.int().min(1).max(LIMITS.payload_bytes_max))
  .refine((rules) => Object.keys(rules).length <= LIMITS.label_count_max, "at most 64 rules");
export type RedactionCounts = Readonly<Record<string, number>>;

/** The rule as a label of metrics, of which there are few. */
export const ruleLabel = (rule: string): string => (REDACTION_RULES.includes(rule) ? rule : "other");

export function countsOf(report: readonly RedactedPart[]): RedactionCounts {
  const counts: Record<string, number> = {};
  for (const { rule } of report) counts[rule] = (counts[rule] ?? 0) + 1;
  return counts;
}
