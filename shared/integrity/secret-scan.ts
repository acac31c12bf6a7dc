/** Removes secrets from text before it is stored: the formats that a maintained library knows, and those of Fleet's own views. */
import { redact } from "../protocol/redaction.ts";

type Lint = (text: string) => Promise<readonly { readonly range: readonly number[] }[]>;

let lint: Promise<Lint> | undefined;

/** Loaded at the first text, because the rules take longer to load than most programs to start. */
function loadRules(): Promise<Lint> {
  lint ??= Promise.all([
    import("@secretlint/core"),
    import("@secretlint/secretlint-rule-preset-recommend"),
  ]).then(([{ lintSource }, { creator }]) => async (text) => {
    const source = { content: text, filePath: "text", ext: "", contentType: "text" as const };
    const config = { rules: [{ id: "@secretlint/secretlint-rule-preset-recommend", rule: creator }] };
    return (await lintSource({ source, options: { config, noPhysicFilePath: true } })).messages;
  });
  return lint;
}

const REPLACEMENT = "[redacted]";

/** A comment in the text cannot switch the rules off: `secretlint-disable` is removed first. */
export async function withoutSecrets(text: string): Promise<string> {
  if (text === "") return text;
  const plain = text.replaceAll(/secretlint-(?=disable|enable)/g, "secretlint ");
  const found = await (await loadRules())(plain);
  const ranges = found.map(({ range: [from = 0, to = 0] }) => ({ from, to })).sort((a, b) => b.from - a.from);
  let kept = plain;
  for (const { from, to } of ranges) kept = kept.slice(0, from) + REPLACEMENT + kept.slice(to);
  return redact(kept).text;
}
