// The recall and the precision of redaction, on contents with one secret each and on as many harmless ones.
import { describe, expect, test } from "vitest";
import { redactContent, secretShapesIn } from "../../../../shared/integrity/redaction/content.ts";
import { KnownSecrets } from "../../../../shared/integrity/redaction/known-secrets.ts";
import { SECRET_PART } from "../../protocol/secrets.ts";
import { HARMLESS } from "./harmless-corpus.ts";
import { CUT_SECRET, KNOWN, SECRET_CASES } from "./secret-corpus.ts";

const RECALL_MIN = 0.98;
const PRECISION_MIN = 1;

const known = new KnownSecrets([...KNOWN, CUT_SECRET]);

test("recall and precision", async () => {
  const missed: string[] = [];
  for (const { name, content, gone = SECRET_PART } of SECRET_CASES) {
    const { content: clean, report } = await redactContent(content, known);
    if (gone.test(JSON.stringify(clean)) || report.length === 0) missed.push(name);
  }
  const wrong: string[] = [];
  for (const [name, content] of Object.entries(HARMLESS)) {
    const { report } = await redactContent(content, known);
    wrong.push(...report.map(({ path, rule }) => `${name}: ${path} (${rule})`));
  }
  const found = SECRET_CASES.length - missed.length;
  const recall = found / SECRET_CASES.length;
  const precision = found / (found + wrong.length);
  const percent = (value: number) => `${(100 * value).toFixed(1)} %`;
  console.log(
    `redaction: recall ${percent(recall)} of ${SECRET_CASES.length}, precision ${percent(precision)} ` +
      `(${Object.keys(HARMLESS).length} harmless contents); missed: ${missed.join("; ")}`,
  );
  expect(wrong).toEqual([]);
  expect(recall).toBeGreaterThanOrEqual(RECALL_MIN);
  expect(precision).toBeGreaterThanOrEqual(PRECISION_MIN);
});

describe("harmless content stays as it is", () => {
  test.each(Object.entries(HARMLESS))("%s", async (_, content) => {
    expect(await redactContent(content, known)).toEqual({ content, report: [] });
    // A writer that refuses secrets accepts it.
    expect(secretShapesIn(content)).toEqual([]);
  });
});
