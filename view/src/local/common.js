"use strict";
// The token is behind the `#`, so that it is in no request and in no log.
const token = decodeURIComponent(location.hash.slice(1));
const part = (id) => document.getElementById(id);
const made = (tag, text, name) => {
  const node = document.createElement(tag);
  node.textContent = text ?? "";
  if (name) node.className = name;
  return node;
};
// A message in the line `told`.
const told = (text, failed) => {
  part("told").textContent = text;
  part("told").classList.toggle("failed", Boolean(failed));
};
// GET, or POST with a body. Errors have the reason that the server tells.
const ask = async (path, body) => {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const how = body ? { method: "POST", body: JSON.stringify(body), headers } : { headers };
  const answer = await fetch(path, how);
  if (answer.ok) return answer;
  const error = await answer.json().catch(() => null);
  throw new Error(error?.error?.message ?? `status ${answer.status}`);
};
