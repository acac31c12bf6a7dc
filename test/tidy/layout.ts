// The places, names and lengths of files.

import { posix } from "node:path";
import { type File, file, isCode, lineCount, type Node, type Rule, visit } from "./source.ts";

const TOP = [
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "README.md",
  "docker-compose.yml",
  "services",
  "shared",
  "deploy",
  "test",
];
const LINES_OF_FILE = 400;
const LINES_OF_FUNCTION = 70;
const LINES_OF_MAIN = 30;
const LINES_OF_README = 150;
const VAGUE = /^(utils?|helpers?|common|misc|libs?|tools?|base|managers?|types?|index)$/;

export const topLevel: Rule = {
  name: "the top level has the listed entries only",
  check: (files) => {
    const present = new Set(
      files.map(({ path }) => path.split("/")[0]!).filter((name) => !name.startsWith(".")),
    );
    return [
      ...[...present]
        .filter((name) => !TOP.includes(name))
        .map((name) => `${name}: is not a top-level entry; move it to services, shared, deploy or test`),
      ...TOP.filter((name) => !present.has(name)).map((name) => `${name}: is missing at the top level`),
    ];
  },
  broken: [...TOP.map((name) => file(`${name}/x`)), file("docs/plan.md")],
  kept: [...TOP.map((name) => file(name)), file(".gitignore")],
};

export const fileNames: Rule = {
  name: "files and folders are named by nouns of the field",
  check: (files) =>
    files.filter(isCode).flatMap(({ path }) => {
      const vague = path
        .split("/")
        .map((part) => part.split(".")[0]!)
        .filter((part) => VAGUE.test(part));
      return vague.map((name) => `${path}: "${name}" has no meaning; name it after its content`);
    }),
  broken: [file("shared/bus/utils.ts")],
  kept: [file("shared/bus/request/request.ts")],
};

export const fileLength: Rule = {
  name: `no file is longer than ${LINES_OF_FILE} lines`,
  check: (files) =>
    files
      .filter((one) => isCode(one) && lineCount(one.text) > LINES_OF_FILE)
      .map(
        ({ path, text }) =>
          `${path}: ${lineCount(text)} lines, at most ${LINES_OF_FILE}; split it by its nouns`,
      ),
  broken: [file("shared/bus/long.ts", "let a;\n".repeat(LINES_OF_FILE + 1))],
  kept: [file("shared/bus/long.ts", "let a;\n".repeat(LINES_OF_FILE))],
};

export const readmeLength: Rule = {
  name: `the README has at most ${LINES_OF_README} lines`,
  check: (files) =>
    files
      .filter(({ path, text }) => path === "README.md" && lineCount(text) > LINES_OF_README)
      .map(
        ({ path, text }) =>
          `${path}: ${lineCount(text)} lines, at most ${LINES_OF_README}; move a part to the document beside its code`,
      ),
  broken: [file("README.md", "x\n".repeat(LINES_OF_README + 1))],
  kept: [file("README.md", "x\n".repeat(LINES_OF_README)), file("test/README.md", "x\n".repeat(200))],
};

/** The relative links of a document outside code blocks, with their anchors. */
const LINK = /\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)/g;

export const links: Rule = {
  name: "links between documents have an existing target",
  check: (files) => {
    const paths = new Set(files.map(({ path }) => path));
    const anchors = new Map(files.filter(isDocument).map((one) => [one.path, headings(one)]));
    const isThere = (path: string): boolean =>
      paths.has(path) || [...paths].some((one) => one.startsWith(`${path.replace(/\/$/, "")}/`));
    return files.filter(isDocument).flatMap((one) =>
      [...prose(one).matchAll(LINK)].flatMap(([, target = "", anchor]) => {
        const path = target === "" ? one.path : posix.join(posix.dirname(one.path), target);
        if (!isThere(path)) return [`${one.path}: links to ${path}, which does not exist`];
        if (anchor === undefined || anchors.get(path)?.has(anchor)) return [];
        return [`${one.path}: links to the heading #${anchor} of ${path}, which does not exist`];
      }),
    );
  },
  broken: [file("README.md", "[a](docs/a.md) [b](#c)\n# B\n")],
  kept: [file("README.md", "[a](docs/a.md#a-b) [c](#c)\n## C\n"), file("docs/a.md", "# `A`, b\n")],
};

const isDocument = ({ path }: File): boolean => path.endsWith(".md");
const prose = ({ text }: File): string => text.replace(/^```[\s\S]*?^```$/gm, "");

/** The anchors of a document's headings, as GitHub writes them. */
const headings = (one: File): ReadonlySet<string> =>
  new Set(
    [...prose(one).matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );

const longFunction = (lines: number): string => `function long() {\n${"go();\n".repeat(lines - 2)}}`;

export const functionLength: Rule = {
  name: `no function is longer than ${LINES_OF_FUNCTION} lines`,
  check: (files) =>
    files.filter(isCode).flatMap((one) => {
      const found: string[] = [];
      visit(one, (node, parent) => {
        if (!isFunction(node) || isSuite(one.path, parent)) return;
        const lines = lineCount(one.text.slice(node.start, node.end));
        if (lines <= LINES_OF_FUNCTION) return;
        const line = lineCount(one.text.slice(0, node.start + 1));
        found.push(
          `${one.path}:${line}: a function of ${lines} lines, at most ${LINES_OF_FUNCTION}; extract a step`,
        );
      });
      return found;
    }),
  broken: [file("shared/bus/long.ts", longFunction(LINES_OF_FUNCTION + 1))],
  kept: [file("shared/bus/long.ts", longFunction(LINES_OF_FUNCTION))],
};

const isFunction = ({ type }: Node): boolean =>
  /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(type);

// The body of a describe block is a list of tests and not a step of a program.
const isSuite = (path: string, parent: Node | undefined): boolean =>
  path.startsWith("test/") && parent?.type === "CallExpression" && /^describe/.test(String(calleeOf(parent)));

function calleeOf(call: Node): unknown {
  let callee = call.callee as Node;
  while (callee.type !== "Identifier") {
    const inner = callee.object ?? callee.callee ?? callee.tag;
    if (!inner) return "";
    callee = inner as Node;
  }
  return callee.name;
}

export const serviceFolders: Rule = {
  name: "every service has main.ts, config.ts and start",
  check: (files) => {
    const names = new Set(
      files.map(({ path }) => /^services\/([^/]+)\//.exec(path)?.[1]).filter((name) => name !== undefined),
    );
    return [...names].flatMap((name) => {
      const own = files.filter(({ path }) => path.startsWith(`services/${name}/`));
      const main = own.find(({ path }) => path === `services/${name}/main.ts`);
      const starts = own.some(({ text }) =>
        /^export (async )?(function|const) start\b|^export \{[^}]*\bstart\b/m.test(text),
      );
      return [
        ...(main ? [] : [`services/${name}: has no main.ts; every service is a process`]),
        ...(main && lineCount(main.text) > LINES_OF_MAIN
          ? [`${main.path}: ${lineCount(main.text)} lines, at most ${LINES_OF_MAIN}; it composes only`]
          : []),
        ...(own.some(({ path }) => path === `services/${name}/config.ts`)
          ? []
          : [`services/${name}: has no config.ts; add it with the settings`]),
        // A command runs to its end. All other services are started and stopped by their host.
        ...(starts || name === "cli"
          ? []
          : [`services/${name}: exports no start(context); the standalone process needs it`]),
      ];
    });
  },
  broken: [file("services/writer/main.ts"), file("services/writer/config.ts")],
  kept: [
    file("services/writer/main.ts", 'import { start } from "./writer.ts";'),
    file("services/writer/config.ts"),
    file("services/writer/writer.ts", "export async function start() {}"),
  ],
};

export const scripts: Rule = {
  name: "the scripts of package.json have existing targets",
  check: (files) => {
    const manifest = JSON.parse(files.find(({ path }) => path === "package.json")?.text ?? "{}");
    const commands: Record<string, string> = { ...manifest.scripts, ...manifest.bin };
    return Object.entries(commands).flatMap(([name, command]) => [
      ...[...command.matchAll(/[\w.-]+(?:\/[\w.-]+)+\.\w+/g)]
        .filter(([path]) => !files.some((one) => one.path === path))
        .map(([path]) => `package.json: "${name}" names ${path}, which does not exist`),
      ...[...command.matchAll(/npm run (?:-\S+ )*([\w:-]+)/g)]
        .filter(([, script]) => !(script! in (manifest.scripts ?? {})))
        .map(([, script]) => `package.json: "${name}" runs the script ${script}, which does not exist`),
    ]);
  },
  broken: [file("package.json", '{"scripts":{"start":"node services/all/main.ts"}}')],
  kept: [
    file("package.json", '{"scripts":{"check":"npm run --silent go","go":"node services/writer/main.ts"}}'),
    file("services/writer/main.ts"),
  ],
};

export const portable: Rule = {
  name: "no file refers to a path outside the project or of one machine",
  check: (files) =>
    files.flatMap((one) => {
      const depth = one.path.split("/").length - 1;
      const climbs = [...one.text.matchAll(/(?:\.\.\/)+/g)].filter(([steps]) => steps.length / 3 > depth);
      const machine = [...one.text.matchAll(MACHINE)];
      return [...climbs, ...machine].map(
        ([found]) => `${one.path}: mentions ${found.trim()}, which is outside the project; remove it`,
      );
    }),
  broken: [
    file("shared/bus/a.ts", `// see ${"../".repeat(3)}design`),
    file("README.md", `in ${["", "opt", "fdb"].join("/")}`),
  ],
  kept: [file("services/writer/main.ts", 'import "../../shared/bus/connect.ts";')],
};

// Written in parts, because the rule also checks this file.
const MACHINE = new RegExp(
  ["/wo" + "rk/", "/opt/f" + "db", "shared/(?:desi" + "gn|refer" + "ence)/"].join("|"),
  "g",
);

export const finished: Rule = {
  name: "no work is deferred",
  check: (files) =>
    files
      .filter(({ path, text }) => path !== "package-lock.json" && LATER.test(text))
      .map(({ path, text }) => `${path}: has a ${LATER.exec(text)![0]}; do it or remove it`),
  broken: [file("shared/bus/a.ts", `// ${"TO" + "DO"}: retry`)],
  kept: [file("shared/bus/a.ts", "// retries")],
};

const LATER = new RegExp(`\\b(${["TO" + "DO", "FIX" + "ME", "XX" + "X"].join("|")})\\b`);
