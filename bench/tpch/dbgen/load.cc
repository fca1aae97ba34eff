// DuckDB's library in the Go module contains the extension tpch, but the library's list of extensions to load
// leaves tpch out. So load_tpch does for tpch what the list does for other extensions. The declarations copy
// the needed parts of DuckDB's headers, because the module has no headers. A test checks the declarations
// against the library.
#include <memory>
#include <string>

namespace duckdb {
class DatabaseInstance;

class ExtensionLoader {
public:
	ExtensionLoader(DatabaseInstance &db, const std::string &name);
	void FinalizeLoad();

private:
	alignas(16) char room[4096]; // more room than the members of the class take
};

struct Wrapper { // a duckdb_database points to a Wrapper
	std::shared_ptr<std::shared_ptr<DatabaseInstance>> database;
};
} // namespace duckdb

extern "C" {
void tpch_duckdb_cpp_init(duckdb::ExtensionLoader &loader);

// load_tpch returns null, or a text in static memory that says what went wrong.
const char *load_tpch(void *db) {
	try {
		auto &instance = **static_cast<duckdb::Wrapper *>(db)->database;
		// The loader is never destroyed: its destructor is not in the library, and each process makes only one
		// loader.
		auto loader = new duckdb::ExtensionLoader(instance, "tpch");
		tpch_duckdb_cpp_init(*loader);
		loader->FinalizeLoad();
		return nullptr;
	} catch (const std::exception &e) {
		static std::string why;
		why = e.what();
		return why.c_str();
	} catch (...) {
		return "an exception of unknown type";
	}
}
}
