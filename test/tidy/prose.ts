// The words of comments, test titles and documents. The glossary (shared/protocol/GLOSSARY.md) says what each thing is called.

import { type File, file, isCode, type Node, type Rule, visit } from "./source.ts";

const GLOSSARY = "shared/protocol/GLOSSARY.md";

/** Each pattern with the words to use instead. */
const BANNED: readonly (readonly [RegExp, string])[] = [
  [/\b(?:whoever|whomever|whosever)\b/i, "the agent that, the caller, the owner"],
  [/\b(?:whatever|whichever)\b/i, "any, every, or the noun"],
  [/\b(?:nobody|somebody|anybody|everybody)(?:'s)?\b/i, "no agent, an operator, the caller, any client"],
  [/\b(?:go|goes|going|went|gone|carry|carries|carried) on\b(?! disk)/i, "continue, resume, proceed"],
  [/\bc(?:o|a)mes? to nothing\b/i, "fails, is cancelled, is void"],
  [/\banew\b/i, "again"],
  [/\bunder way\b/i, "open, in progress"],
  [/\bas many as may\b/i, "the limit"],
  [/\b(?:is|are|was|were|be|been) told\b/i, "receives, is notified, is reported"],
  [/\b(?:say|says|said) so\b/i, "states, reports"],
  [/\bmend(?:s|ed|ing)?\b/i, "fix"],
  [/\bto and fro\b/i, "back and forth"],
  [/\b(?:kept|keeps?|keeping) back\b/i, "back off, hold"],
  [/\bin one hand\b/i, "by one instance"],
  [/(?:^|[.!?:;] )\s*Who (?!(?:\w+ ){0,12}\w+\?)/, "a noun: the agent that, the owner"],
];

interface Passage {
  readonly line: number;
  readonly text: string;
}

export const bannedWords: Rule = {
  name: "comments, titles and documents use the words of the glossary",
  check: (files) =>
    files
      .filter(({ path }) => path !== GLOSSARY && path !== "test/tidy/prose.ts")
      .flatMap((one) =>
        passages(one).flatMap(({ line, text }) =>
          BANNED.filter(([pattern]) => pattern.test(text)).map(
            ([pattern, instead]) =>
              `${one.path}:${line}: says "${pattern.exec(text)![0].trim()}"; write ${instead} (${GLOSSARY})`,
          ),
        ),
      ),
  broken: [
    file("shared/bus/a.ts", "// Whoever asks gets it.\nlet a;"),
    file("test/a.test.ts", 'test("goes on after a kill", () => {});'),
    file("README.md", "Nobody has the task."),
  ],
  kept: [
    file("shared/bus/a.ts", "// The caller gets it.\nlet goesOn;"),
    file("test/a.test.ts", 'test("continues after a kill", () => {});'),
    file("README.md", "No agent owns the task."),
  ],
};

/** The text for readers: comments and sentences in strings of code, and all lines of a document. */
function passages(one: File): Passage[] {
  if (one.path.endsWith(".md")) return one.text.split("\n").map((text, i) => ({ line: i + 1, text }));
  if (!isCode(one)) return [];
  const found: { readonly start: number; readonly text: string }[] = [];
  const code: string[] = [];
  let end = 0;
  for (const literal of literals(one)) {
    if (literal.text.includes(" ")) found.push(literal);
    code.push(
      one.text.slice(end, literal.start),
      one.text.slice(literal.start, literal.end).replace(/[^\n]/g, " "),
    );
    end = literal.end;
  }
  code.push(one.text.slice(end));
  for (const match of code.join("").matchAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g)) {
    found.push({
      start: match.index,
      text: match[0].replace(/\n\s*(?:\*|\/\/)? ?/g, " ").replace(/^[/* ]+/, ""),
    });
  }
  const breaks = [...one.text.matchAll(/\n/g)].map(({ index }) => index);
  return found.map(({ start, text }) => ({ line: breaks.filter((at) => at < start).length + 1, text }));
}

/** String literals and the fixed parts of templates, in their order. */
function literals(one: File): { start: number; end: number; text: string }[] {
  const found: { start: number; end: number; text: string }[] = [];
  visit(one, (node: Node) => {
    const { start, end } = node;
    if (node.type === "Literal" && typeof node.value === "string")
      found.push({ start, end, text: node.value });
    if (node.type === "TemplateElement")
      found.push({ start, end, text: (node.value as { raw: string }).raw });
  });
  return found.filter(({ start, end }) => end > start).sort((a, b) => a.start - b.start);
}
