/** The page of the API for people: the OpenAPI document as one HTML file without scripts, fonts and images from elsewhere. */
import type { ApiOperation, OpenApiDocument, Parameter } from "./document.ts";
import { PAGE_STYLE } from "./reference-style.ts";

type Schema = Readonly<Record<string, unknown>>;

/** Members below this depth are shown by their type alone. */
const DEPTH_MAX = 4;

export function referencePage(document: OpenApiDocument): string {
  const { info, tags } = document;
  const operations = listed(document);
  const sections = tags.map(({ name, description }) => {
    const own = operations.filter(({ operation }) => operation.tags.includes(name));
    return `<section id="${escaped(name)}"><h2>${escaped(capital(name))}</h2><p>${escaped(description)}</p>${own
      .map((one) => operationHtml(one, document))
      .join("")}</section>`;
  });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(info.title)} HTTP API</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<nav><a class="home" href="#top">${escaped(info.title)} API</a>${tags
    .map(
      ({ name }) =>
        `<details open><summary>${escaped(capital(name))}</summary>${operations
          .filter(({ operation }) => operation.tags.includes(name))
          .map(linkHtml)
          .join("")}</details>`,
    )
    .join("")}</nav>
<main id="top">
<h1>${escaped(info.title)} HTTP API</h1>
${info.description
  .split("\n\n")
  .map((text) => `<p>${marked(text)}</p>`)
  .join("")}
<pre>curl -H "Authorization: Bearer $(cat .fleet/client/api-key)" http://127.0.0.1:4284/api/v1/tasks</pre>
<p>The document for programs: <a href="/api/openapi.json">/api/openapi.json</a> (OpenAPI 3.1).</p>
${sections.join("\n")}
</main>
</body>
</html>
`;
}

interface ListedOperation {
  readonly path: string;
  readonly method: string;
  readonly operation: ApiOperation;
}

function listed({ paths }: OpenApiDocument): ListedOperation[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
}

function linkHtml({ method, operation }: ListedOperation): string {
  return `<a href="#${operation.operationId}"><b class="${method.toLowerCase()}">${method}</b> ${escaped(words(operation.operationId))}</a>`;
}

function operationHtml({ path, method, operation }: ListedOperation, document: OpenApiDocument): string {
  const { operationId, summary, parameters = [], requestBody, security } = operation;
  const [scope] = security?.[0]?.bearer ?? [];
  const body = Object.values(requestBody?.content ?? {})[0]?.schema;
  return `<article id="${operationId}">
<h3><b class="${method.toLowerCase()}">${method}</b> <code>${pathHtml(path)}</code></h3>
<p>${marked(summary)}${scope === undefined ? "" : ` <small>Scope <code>${escaped(scope)}</code> or <code>${operationId}</code>.</small>`}</p>
${parameters.length > 0 ? `<h4>Parameters</h4>${parametersHtml(parameters)}` : ""}
${body === undefined ? "" : `<h4>Body</h4>${schemaHtml(body, document)}`}
<h4>Answers</h4>${responsesHtml(operation, document)}
</article>`;
}

const pathHtml = (path: string): string =>
  escaped(path)
    .replace(/\{(\w+)\}/g, "<i>{$1}</i>")
    .replaceAll("/", "/<wbr>");

function parametersHtml(parameters: readonly Parameter[]): string {
  const rows = parameters.map(({ name, in: place, required, schema, ...rest }) => {
    const { description = "" } = rest as { description?: string };
    return `<tr><td><code>${escaped(name)}</code>${required ? "" : ` <small>optional</small>`}</td><td>${place}</td><td>${typeHtml(schema as Schema)} ${marked(description)}</td></tr>`;
  });
  return `<table><tbody>${rows.join("")}</tbody></table>`;
}

interface ResponseObject {
  readonly $ref?: string;
  readonly description?: string;
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}

/** The problems are the same nearly everywhere, so they are folded. */
function responsesHtml({ responses }: ApiOperation, document: OpenApiDocument): string {
  const all = Object.entries(responses as Readonly<Record<string, ResponseObject>>);
  const line = ([status, response]: (typeof all)[number]): string => {
    const { description = "", content } = resolved(response, document) as ResponseObject;
    const schema = Object.values(content ?? {})[0]?.schema;
    const head = `<b class="s${status[0]}">${status}</b> ${marked(description)}`;
    if (isProblem(status) || schema === undefined) return `<div class="answer">${head}</div>`;
    return `<details class="answer"><summary>${head}</summary>${schemaHtml(schema, document)}</details>`;
  };
  const problems = all.filter(([status]) => isProblem(status));
  const statuses = problems.map(([status]) => `<b class="s${status[0]}">${status}</b>`).join(" ");
  return (
    all
      .filter(([status]) => !isProblem(status))
      .map(line)
      .join("") +
    `<details class="answer"><summary>${statuses}</summary>${problems.map(line).join("")}</details>`
  );
}

const isProblem = (status: string): boolean => Number(status) >= 400;

function schemaHtml(schema: Schema, document: OpenApiDocument, depth = 0): string {
  const { properties, required, items, anyOf } = resolved(schema, document) as {
    anyOf?: readonly Schema[];
    properties?: Readonly<Record<string, Schema>>;
    required?: readonly string[];
    items?: Schema;
  };
  const forms = (anyOf ?? []).map((form) => schemaHtml(form, document, depth)).filter((html) => html !== "");
  if (forms.length > 0) return forms.join("<p>or:</p>");
  if (properties === undefined)
    return items === undefined || depth > 0
      ? ""
      : `<p>A list of:</p>${schemaHtml(items, document, depth + 1)}`;
  const rows = Object.entries(properties).map(([name, member]) => {
    const whole = resolved(member, document);
    const inner = innerOf(whole, document);
    const nested = depth < DEPTH_MAX && inner !== undefined ? schemaHtml(inner, document, depth + 1) : "";
    const head = `<code>${escaped(name)}</code>${required?.includes(name) ? "" : " <small>optional</small>"} ${typeHtml(whole)}`;
    return nested === ""
      ? `<li>${head}</li>`
      : `<li><details><summary>${head}</summary>${nested}</details></li>`;
  });
  return `<ul class="members">${rows.join("")}</ul>`;
}

/** The object inside a member: its own, of its items, or of the alternative that is no null. */
function innerOf(schema: Schema, document: OpenApiDocument): Schema | undefined {
  if (schema.properties !== undefined) return schema;
  if (schema.items !== undefined) return innerOf(resolved(schema.items as Schema, document), document);
  const options = (schema.anyOf ?? schema.oneOf ?? []) as readonly Schema[];
  for (const option of options) {
    const inner = innerOf(resolved(option, document), document);
    if (inner !== undefined) return inner;
  }
  return undefined;
}

function typeHtml(schema: Schema): string {
  const {
    type,
    enum: values,
    items,
    anyOf,
    minimum,
    maximum,
    default: usual,
    pattern,
    format,
    maxLength,
  } = schema;
  const notes = [
    Array.isArray(values) ? values.map((value) => `<code>${escaped(String(value))}</code>`).join(" ") : "",
    typeof format === "string" ? escaped(format) : "",
    typeof minimum === "number" && minimum > Number.MIN_SAFE_INTEGER ? `from ${minimum}` : "",
    typeof maximum === "number" && maximum < Number.MAX_SAFE_INTEGER ? `up to ${maximum}` : "",
    typeof maxLength === "number" ? `at most ${maxLength} characters` : "",
    typeof pattern === "string" && pattern.length < 60
      ? `<code class="pattern">${escaped(pattern)}</code>`
      : "",
    usual === undefined ? "" : `default <code>${escaped(JSON.stringify(usual))}</code>`,
  ].filter((note) => note !== "");
  return `<span class="type">${typeName({ type, items, anyOf })}${notes.length > 0 ? `, ${notes.join(", ")}` : ""}</span>`;
}

function typeName({ type, items, anyOf }: Schema): string {
  if (Array.isArray(anyOf))
    return anyOf
      .map((option: Schema) => typeName(option))
      .filter((one, i, all) => all.indexOf(one) === i)
      .join(" or ");
  if (type === "array") return `list of ${typeName((items ?? {}) as Schema)}`;
  return typeof type === "string" ? type : "any";
}

function resolved(schema: unknown, document: OpenApiDocument): Schema {
  const { $ref } = schema as { $ref?: string };
  if ($ref === undefined) return schema as Schema;
  const [, kind = "", name = ""] = /^#\/components\/(\w+)\/(.+)$/.exec($ref) ?? [];
  return (document.components[kind]?.[name] ?? {}) as Schema;
}

const words = (id: string): string => capital(id.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`));
const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Text with `code` in backticks. */
function marked(text: string): string {
  return escaped(text).replace(/`([^`]+)`/g, "<code>$1</code>");
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}
