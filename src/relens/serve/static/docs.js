// The requests of the service, written from its own description.

import { ask } from "/static/requests.js";

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const reference = (schema) => schema?.$ref?.split("/").pop();

function kindOf(schema, schemas) {
  if (!schema) return "anything";
  if (schema.$ref) return reference(schema);
  if (schema.anyOf) return schema.anyOf.map((part) => kindOf(part, schemas)).filter((kind) => kind !== "null").join(" or ");
  if (schema.enum) return schema.enum.join(" or ");
  if (schema.type === "array") return `list of ${kindOf(schema.items, schemas)}`;
  return schema.type ?? "anything";
}

function limitsOf(schema) {
  const parts = [schema, ...(schema.anyOf ?? [])];
  const value = (key) => parts.find((part) => part[key] !== undefined)?.[key];
  const said = [];
  if (value("minimum") !== undefined) said.push(`${value("minimum")} to ${value("maximum")}`);
  if (value("maxLength") !== undefined) said.push(`at most ${value("maxLength")} characters`);
  if (value("maxItems") !== undefined) said.push(`at most ${value("maxItems")}`);
  if (schema.default !== undefined && schema.default !== null && schema.default !== "") said.push(`default ${schema.default}`);
  return said.join(", ");
}

function fields(rows) {
  const list = element("dl", {});
  for (const { name, kind, needed, about, limits } of rows) {
    list.append(element("dt", {}, element("code", {}, name), ` ${kind}${needed ? ", needed" : ""}`));
    list.append(element("dd", {}, about && limits ? `${about} (${limits})` : about || limits));
  }
  return list;
}

function parameterRows(operation, schemas) {
  return (operation.parameters ?? []).map(({ name, required, description, schema }) => ({
    name, needed: required, kind: kindOf(schema, schemas), limits: limitsOf(schema), about: description ?? schema.description,
  }));
}

function schemaRows(name, schemas) {
  const { properties = {}, required = [] } = schemas[name] ?? {};
  return Object.entries(properties).map(([field, schema]) => ({
    name: field, needed: required.includes(field), kind: kindOf(schema, schemas), limits: limitsOf(schema), about: schema.description,
  }));
}

function request(path, method, operation, schemas) {
  const title = element("h2", {}, element("code", {}, `${method.toUpperCase()} ${path}`));
  const made = element("section", { class: "request" }, title, element("p", {}, operation.summary ?? ""));
  const body = reference(operation.requestBody?.content["application/json"].schema);
  const rows = body ? schemaRows(body, schemas) : parameterRows(operation, schemas);
  if (rows.length) made.append(fields(rows));
  if (method === "get" && !rows.some((row) => row.needed)) made.append(element("p", {}, element("a", { href: path }, `try ${path}`)));
  return made;
}

async function show() {
  const { paths, components } = await ask("/openapi.json");
  const found = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => request(path, method, operation, components.schemas)));
  document.getElementById("requests").replaceChildren(...found);
}

show();
